//! All problems of a file at once, as a block for the terminal.

use crate::support::plan;

#[test]
fn a_file_with_eleven_mistakes_gets_all_of_them_with_line_key_and_remedy() {
    let problems = plan(include_str!("fixtures/eleven-mistakes.yaml")).err().unwrap();
    assert_eq!(problems.to_string(), include_str!("fixtures/eleven-mistakes.txt"));
}

#[test]
fn the_block_is_aligned() {
    let problems =
        plan("streams:\n  - input: {type: generate, context: c, cuont: 1}\n    output: {type: x}\n").err().unwrap();
    assert_eq!(
        problems.to_string(),
        "pipeline.yaml has 2 problems\n\n  \
           2:41   streams[0].input.cuont   unknown key; did you mean count?\n  \
           3:14   streams[0].output.type   \"x\" is not known; known here: kafka, sql, http, file, stdout, drop\n"
    );
}
