//! Tables for people and for documents.

/// Rows of text under a header. The first column is a name, the others are numbers.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Table { rows: vec![header.into_iter().map(Into::into).collect()] }
    }

    /// A row may be shorter than the header.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Aligned columns.
    pub(crate) fn text(&self) -> String {
        let lines = self.padded().map(|cells| cells.join("  ").trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n") + "\n"
    }

    /// The same for a document.
    pub(crate) fn markdown(&self) -> String {
        let mut lines: Vec<String> = self.padded().map(|cells| format!("| {} |", cells.join(" | "))).collect();
        let columns = self.rows[0].len();
        lines.insert(1, format!("|---|{}", "---:|".repeat(columns - 1)));
        lines.join("\n") + "\n"
    }

    fn padded(&self) -> impl Iterator<Item = Vec<String>> {
        let width = |text: &String| text.chars().count();
        let widths: Vec<usize> = (0..self.rows[0].len())
            .map(|column| self.rows.iter().filter_map(|row| row.get(column)).map(width).max().unwrap_or(0))
            .collect();
        self.rows.iter().map(move |row| {
            let cell = |(column, width): (usize, &usize)| {
                let text = row.get(column).map_or("", String::as_str);
                if column == 0 { format!("{text:<width$}") } else { format!("{text:>width$}") }
            };
            widths.iter().enumerate().map(cell).collect()
        })
    }
}

/// Lines as a list in Markdown.
pub(crate) fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {line}\n")).collect()
}

/// A number with its digits in groups: 1 234 567.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number, or a dash where there is none.
pub(crate) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_short_rows_are_filled() {
        let mut table = Table::new(["name", "rate"]);
        table.row(vec!["é".into(), "1 000".into()]);
        table.row(vec!["error".into()]);
        assert_eq!(table.text(), "name    rate\né      1 000\nerror\n");
        assert!(table.markdown().starts_with("| name  |  rate |\n|---|---:|\n"), "{}", table.markdown());
    }

    #[test]
    fn digits_come_in_groups_of_three() {
        assert_eq!(grouped(1_234_567.4), "1 234 567");
        assert_eq!(grouped(999.0), "999");
    }
}
