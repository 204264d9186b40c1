//! Rows of CSV as JSON objects. A row has the fields that its header says, and every value is a string: what it means is left to the processors.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::spec::CsvFormat;

pub(super) struct Csv {
    parser: Reader,
    /// The begins of the members of an object: `"name":`. Empty until the header is read.
    members: Vec<String>,
    /// The fields of the row, one behind the other.
    fields: Vec<u8>,
    filled: usize,
    /// Where each field ends in them.
    ends: Vec<usize>,
    ended: usize,
    problem: Option<String>,
    delimiter: u8,
    place: Place,
    /// The field of the row in which that is, from 1.
    field: usize,
    /// Nothing was read before: a byte order mark may come.
    is_first: bool,
    json: Vec<u8>,
}

/// Where in a field its bytes are. The parser takes text behind a closing quote for more of the field, in silence.
#[derive(Clone, Copy)]
enum Place {
    Begin,
    Plain,
    Quoted,
    /// Behind a quote that ends the field, unless it is doubled.
    Closed,
}

impl Csv {
    pub(super) fn new(format: &CsvFormat) -> Self {
        Csv {
            parser: ReaderBuilder::new().delimiter(format.delimiter).build(),
            members: format.columns.iter().flatten().map(|name| member(name)).collect(),
            fields: vec![0; 1 << 10],
            filled: 0,
            ends: vec![0; 32],
            ended: 0,
            problem: None,
            delimiter: format.delimiter,
            place: Place::Begin,
            field: 1,
            is_first: true,
            json: Vec::new(),
        }
    }

    /// A row begins.
    pub(super) fn begin(&mut self) {
        (self.filled, self.ended, self.problem) = (0, 0, None);
        (self.place, self.field) = (Place::Begin, 1);
    }

    /// Takes the next line of the row, with its end. Returns false where a quoted field goes on in the line after it.
    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        self.check_quotes(line);
        let mut at = 0;
        loop {
            let (fields, ends) = (&mut self.fields[self.filled..], &mut self.ends[self.ended..]);
            let (result, read, filled, ended) = self.parser.read_record(&line[at..], fields, ends);
            (at, self.filled, self.ended) = (at + read, self.filled + filled, self.ended + ended);
            match result {
                ReadRecordResult::OutputFull => self.fields.resize(self.fields.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => return false,
                ReadRecordResult::Record => break,
            }
        }
        match &line[at..] {
            b"" => {}
            // It belongs to the carriage return that has ended the row.
            b"\n" => drop(self.parser.read_record(b"\n", &mut [0], &mut [0])),
            _ => {
                self.problem.get_or_insert("it has a carriage return that ends no line".to_owned());
                self.go_on();
            }
        }
        true
    }

    /// Nothing comes any more.
    pub(super) fn end(&mut self) {
        if !self.line(b"\n") {
            self.problem.get_or_insert("a quoted field has no end".to_owned());
            self.go_on();
        }
    }

    /// What comes is not the beginning of the file: a byte order mark there is text.
    pub(super) fn go_on(&mut self) {
        self.is_first = false;
        self.parser.reset();
        // It looks for one until it has read something.
        self.parser.read_record(b"\n", &mut [0], &mut [0]);
    }

    fn check_quotes(&mut self, line: &[u8]) {
        let mark = if std::mem::take(&mut self.is_first) { "\u{feff}".as_bytes() } else { b"" };
        if self.problem.is_some() {
            return;
        }
        for &byte in line.strip_prefix(mark).unwrap_or(line) {
            self.place = match (self.place, byte) {
                (Place::Quoted, b'"') => Place::Closed,
                (Place::Begin | Place::Closed, b'"') | (Place::Quoted, _) => Place::Quoted,
                (_, b'\r' | b'\n') => Place::Begin,
                (_, byte) if byte == self.delimiter => {
                    self.field += 1;
                    Place::Begin
                }
                (Place::Closed, _) => {
                    self.problem = Some(format!("field {} goes on behind its closing quote", self.field));
                    return;
                }
                _ => Place::Plain,
            };
        }
    }

    pub(super) fn needs_header(&self) -> bool {
        self.members.is_empty()
    }

    /// Takes the names of the row.
    pub(super) fn header(&mut self) -> Result<(), String> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let mut names: Vec<&str> = Vec::new();
        for index in 0..self.ended {
            let name = self.field(index).ok_or("it is not UTF-8")?;
            if names.contains(&name) {
                return Err(format!("two columns are named {name:?}"));
            }
            names.push(name);
        }
        self.members = names.into_iter().map(member).collect();
        Ok(())
    }

    /// The row as a JSON object.
    pub(super) fn object(&mut self) -> Result<&[u8], String> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let (fields, columns) = (self.ended, self.members.len());
        if fields != columns {
            let s = if fields == 1 { "" } else { "s" };
            return Err(format!("it has {fields} field{s}, and the file has {columns} columns"));
        }
        let mut json = std::mem::take(&mut self.json);
        json.clear();
        for (index, member) in self.members.iter().enumerate() {
            let value = self.field(index).ok_or_else(|| format!("field {} is not UTF-8", index + 1))?;
            json.push(if index == 0 { b'{' } else { b',' });
            json.extend_from_slice(member.as_bytes());
            serde_json::to_writer(&mut json, value).expect("a text has a JSON form");
        }
        json.push(b'}');
        self.json = json;
        Ok(&self.json)
    }

    fn field(&self, index: usize) -> Option<&str> {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        std::str::from_utf8(&self.fields[begin..self.ends[index]]).ok()
    }
}

fn member(name: &str) -> String {
    serde_json::to_string(name).expect("a text has a JSON form") + ":"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of rows, each in lines.
    fn rows(format: &CsvFormat, rows: &[&[&str]]) -> Vec<Result<String, String>> {
        let mut csv = Csv::new(format);
        let mut row = |lines: &&[&str]| {
            csv.begin();
            let (last, before) = lines.split_last().unwrap();
            assert!(before.iter().all(|line| !csv.line(line.as_bytes())), "it goes on: {lines:?}");
            if !last.ends_with('\n') {
                assert!(!csv.line(last.as_bytes()));
                csv.end();
            } else if !csv.line(last.as_bytes()) {
                csv.end();
            }
            if csv.needs_header() {
                return csv.header().map(|()| String::new());
            }
            csv.object().map(|object| String::from_utf8(object.to_vec()).unwrap())
        };
        rows.iter().map(&mut row).collect()
    }

    fn format(delimiter: u8, columns: &[&str]) -> CsvFormat {
        let names = columns.iter().map(|&name| name.to_owned()).collect();
        CsvFormat { delimiter, columns: (!columns.is_empty()).then_some(names) }
    }

    #[test]
    fn rows_are_objects_of_strings() {
        let found = rows(
            &format(b',', &[]),
            &[
                &["\u{feff}id,\"a \"\"name\"\"\",\n"],
                &["1,x,\n"],
                &["\"2\",\"x,\"\"y\"\"\", z \r\n"],
                &["3,\"two\r\n", "\n", "lines\",\u{e4}\n"],
                &["4,a\"b\",c"],
            ],
        );
        let expected = [
            "",
            r#"{"id":"1","a \"name\"":"x","":""}"#,
            r#"{"id":"2","a \"name\"":"x,\"y\"","":" z "}"#,
            r#"{"id":"3","a \"name\"":"two\r\n\nlines","":"ä"}"#,
            r#"{"id":"4","a \"name\"":"a\"b\"","":"c"}"#,
        ];
        assert_eq!(found, expected.map(|text| Ok(text.to_owned())));
        let found = rows(&format(b'\t', &["a", "b"]), &[&["1\t2,3\n"], &["\t\n"]]);
        assert_eq!(found, [r#"{"a":"1","b":"2,3"}"#, r#"{"a":"","b":""}"#].map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn a_row_that_is_wrong_says_why_and_the_next_one_is_right() {
        let found = rows(
            &format(b';', &["a", "b"]),
            &[
                &["1\n"],
                &["1;2;3\n"],
                &["1;2\r3;4\r\n"],
                &["5;6\r\n"],
                &["5;\"6\n", "7;8\n"],
                &["7;8\n"],
                &["\"a;\"\"\n", "b\";\"a\"b\n"],
                &["\"a\" ;b\n"],
                &["9;\"\"\r\n"],
            ],
        );
        let problems: Vec<_> = found.iter().map(|row| row.clone().err().unwrap_or_default()).collect();
        let expected = [
            "it has 1 field, and the file has 2 columns",
            "it has 3 fields, and the file has 2 columns",
            "it has a carriage return that ends no line",
            "",
            "a quoted field has no end",
            "",
            "field 2 goes on behind its closing quote",
            "field 1 goes on behind its closing quote",
            "",
        ];
        assert_eq!(problems, expected);
        assert_eq!(found[3], Ok(r#"{"a":"5","b":"6"}"#.to_owned()));
        assert_eq!(found[5], Ok(r#"{"a":"7","b":"8"}"#.to_owned()));
        let mut csv = Csv::new(&format(b';', &["a"]));
        csv.begin();
        assert!(csv.line(b"\xff\n"));
        assert_eq!(csv.object(), Err("field 1 is not UTF-8".to_owned()));
    }

    #[test]
    fn a_header_has_each_name_once() {
        assert_eq!(rows(&format(b',', &[]), &[&["a,b,a\n"]]), [Err("two columns are named \"a\"".to_owned())]);
        let found = rows(&format(b',', &[]), &[&["\u{feff}\"a\",\"b\"\n"], &["1,2\n"]]);
        assert_eq!(found[1], Ok(r#"{"a":"1","b":"2"}"#.to_owned()));
        let found = rows(&format(b',', &[]), &[&["a,\"b\"c\n"]]);
        assert_eq!(found, [Err("field 2 goes on behind its closing quote".to_owned())]);
    }

    #[test]
    fn long_rows_are_whole() {
        let value = "x".repeat(5000);
        let row = vec![value.as_str(); 40].join(",") + "\n";
        let names: Vec<_> = (0..40).map(|n| n.to_string()).collect();
        let format = CsvFormat { delimiter: b',', columns: Some(names) };
        let found = rows(&format, &[&[&row]]);
        let object: serde_json::Value = serde_json::from_str(found[0].as_ref().unwrap()).unwrap();
        assert!(object["39"] == value.as_str() && object.as_object().unwrap().len() == 40);
    }
}
