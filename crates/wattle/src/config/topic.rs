//! Names of topics.

/// Why Kafka would refuse a topic of this name; `None` if it would not.
#[must_use]
pub fn topic_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it is blank")
    } else if name.starts_with('^') {
        Some("topic patterns are not supported: a task needs fixed topics; list their names")
    } else if name == "." || name == ".." {
        Some("a topic cannot be called . or ..")
    } else if name.len() > 249 {
        Some("a topic's name has at most 249 characters")
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')) {
        Some("a topic's name consists of letters, digits, . _ and - only")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_follow_kafkas_rules() {
        for good in ["a", "A.b_c-9", &"x".repeat(249)] {
            assert_eq!(topic_problem(good), None, "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "a#b", "ä", "^a.*", &"x".repeat(250)] {
            assert!(topic_problem(bad).is_some(), "{bad}");
        }
    }
}
