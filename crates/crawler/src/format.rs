//! Formats numbers for people: `1,013`, `2 pages`.

/// A number with thousands separators.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun, in the singular or with an `s`: `1 page`, `2,000 pages`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", number(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_thousands_separators() {
        for (value, text) in [(0, "0"), (999, "999"), (1_013, "1,013"), (1_234_567, "1,234,567")] {
            assert_eq!(number(value), text);
        }
        assert_eq!((counted(1, "page"), counted(2_000, "page")), ("1 page".into(), "2,000 pages".into()));
    }
}
