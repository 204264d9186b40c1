//! A target, and whether it was met.

/// What a value is held to.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    /// One line: met, missed, or not measured.
    pub(crate) fn line(self, what: &str, value: Option<f64>) -> String {
        let (sign, bound) = match self {
            Self::AtLeast(bound) => ("≥", bound),
            Self::AtMost(bound) => ("≤", bound),
        };
        match value {
            None => format!("not measured  {what} (target {sign} {bound:.2})"),
            Some(value) => {
                let met = match self {
                    Self::AtLeast(bound) => value >= bound,
                    Self::AtMost(bound) => value <= bound,
                };
                format!("{}  {what} {value:.2} (target {sign} {bound:.2})", if met { "met   " } else { "MISSED" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bound::{AtLeast, AtMost};

    #[test]
    fn a_bound_itself_meets_its_target() {
        assert!(AtLeast(0.75).line("x", Some(0.75)).starts_with("met"));
        assert!(AtLeast(0.75).line("x", Some(0.74)).starts_with("MISSED"));
        assert!(AtMost(6.0).line("x", Some(6.1)).starts_with("MISSED"));
        assert!(AtMost(6.0).line("x", None).starts_with("not measured"));
    }
}
