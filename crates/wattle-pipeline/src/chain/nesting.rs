//! How deep a program is nested, from its text alone. VRL goes down into its expressions by recursion, when it compiles and when it runs, and a stack that
//! overflows ends the process.

/// More than anybody writes, and less than overflows the main thread, where programs are compiled.
pub(super) const DEEPEST: usize = 500;

/// At least the depth of the deepest expression: brackets that are open, and operators of the expressions around and before a place. A chain of operators is
/// nested as well: `a || b || c` is `(a || b) || c`.
pub(super) fn depth(program: &str) -> usize {
    let mut around = Vec::new();
    let (mut deepest, mut sum, mut here) = (0_usize, 0_usize, 0_usize);
    let (mut last, mut is_new_line) = (' ', false);
    let mut rest = program.char_indices();
    while let Some((at, char)) = rest.next() {
        let is_operator = "+-*/%=!<>&|?".contains(char);
        let joins = is_operator || (char == 'e' && program[at..].starts_with("else"));
        // An expression goes on in the next line where an operator says so.
        if is_new_line && !char.is_whitespace() && !joins && !"+-*/%=<>&|?".contains(last) {
            here = 0;
        }
        match char {
            '#' => drop(rest.find(|(_, char)| *char == '\n')),
            '"' | '\'' => {
                while rest.next().is_some_and(|(_, next)| next != char && (next != '\\' || rest.next().is_some())) {}
            }
            '(' | '[' | '{' => {
                around.push(here);
                sum += here + 1;
                here = 0;
            }
            ')' | ']' | '}' => {
                here = around.pop().unwrap_or(0);
                sum = sum.saturating_sub(here + 1);
            }
            ';' | ',' => here = 0,
            // Two of a kind are one, except that `!!` is two.
            _ if joins && (char != last || char == '!') => here += 1,
            _ => {}
        }
        is_new_line = char == '\n' || char == '#' || (is_new_line && char.is_whitespace());
        if !char.is_whitespace() {
            last = char;
        }
        deepest = deepest.max(sum + here);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nests_is_counted_and_what_comes_one_after_another_is_not() {
        for (program, expected) in [
            (".a = 1", 1),
            (".a = (1 + (2 * 3))", 5),
            (".a = 1\n.b = 2\n.c = 3", 1),
            (".a = 1; .b = 2", 1),
            ("a ||\n b ||\n c", 2),
            ("a\n || b\n || c", 2),
            ("!!!.a", 3),
            (".a = \"((( || \\\" (((\" # ((((\n.b = '(('", 1),
            ("if .a { 1 } else if .b { 2 } else { 3 }", 3),
            (".a = [1, 2, 3]", 2),
        ] {
            assert_eq!(depth(program), expected, "{program:?}");
        }
    }

    #[test]
    fn a_program_that_would_overflow_the_stack_is_counted_as_too_deep() {
        for piece in ["(", "!", "[", "{", "1 + ", ".a = ", "if .a == 1 { .x = 1 } else ", "true ||\n"] {
            assert!(depth(&piece.repeat(1000)) > DEEPEST, "{piece:?}");
        }
        let lines = ".a = to_int!(.b) + 1\nif .c { .d = [.e, \"f\"] }\n".repeat(1000);
        assert!(depth(&lines) < 10, "{}", depth(&lines));
    }
}
