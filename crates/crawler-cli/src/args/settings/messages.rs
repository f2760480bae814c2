//! Names the variable or the line of the file in messages about options that were set there.

use super::report::shown;
use super::{Origin, Settings};

impl Settings {
    /// A message about an invalid value of an option that the environment or the file sets: `FILE:3: delay = "x": reason`.
    pub fn invalid_value(&self, option: &str, value: &str, reason: &str) -> Option<String> {
        let name = option.strip_prefix("--")?;
        let value = shown(name, value).0;
        Some(match self.origin_of(name)? {
            Origin::Variable(variable) => format!("{variable}={value}: {reason}"),
            Origin::File { place, .. } => format!("{place}: {name} = {value:?}: {reason}"),
        })
    }

    /// A message in which `--delay` is replaced by the variable, or by the key and its place in the file, if it was set
    /// there.
    pub fn with_origins(&self, message: &str) -> String {
        let mut text = String::with_capacity(message.len());
        let (mut rest, mut prefix) = (message, None);
        let mut named: Vec<&str> = Vec::new();
        while let Some(start) = rest.find("--") {
            let (before, option) = rest.split_at(start);
            let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            let end = option[2..].bytes().position(|byte| !is_name(byte)).map_or(option.len(), |end| end + 2);
            let (option, after) = option.split_at(end);
            text.push_str(before);
            match self.origin_of(&option[2..]) {
                None => text.push_str(option),
                Some(Origin::Variable(variable)) => text.push_str(variable),
                Some(Origin::File { place, .. }) => {
                    text.push_str(&option[2..]);
                    if prefix.is_none() {
                        prefix = Some(place);
                    } else if !named.contains(&option) {
                        text.push_str(&format!(" ({place})"));
                    }
                    named.push(option);
                }
            }
            rest = after;
        }
        text.push_str(rest);
        match prefix {
            Some(place) => format!("{place}: {text}"),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Setting, Value};
    use super::*;

    #[test]
    fn messages_name_the_variable_or_the_line() {
        let setting = |name: &str, origin| Setting { name: name.into(), value: Value::Switch(true), origin };
        let place = |line: usize| Origin::File { place: format!("c.toml:{line}"), in_table: true };
        let settings = vec![
            setting("quiet", place(3)),
            setting("verbose", place(4)),
            setting("delay", Origin::Variable("CRAWLER_DELAY".into())),
        ];
        let settings = Settings { settings, ..Settings::default() };
        for (message, expected) in [
            (
                "--verbose cannot be used with --quiet",
                "c.toml:4: verbose cannot be used with quiet (c.toml:3)",
            ),
            ("--delay is invalid", "CRAWLER_DELAY is invalid"),
            ("--delays and -- and --", "--delays and -- and --"),
            ("--timeout is invalid", "--timeout is invalid"),
            ("--quiet a and --quiet b", "c.toml:3: quiet a and quiet b"),
        ] {
            assert_eq!(settings.with_origins(message), expected);
        }
        assert_eq!(settings.invalid_value("--delay", "x", "no").unwrap(), "CRAWLER_DELAY=x: no");
        assert_eq!(settings.invalid_value("--quiet", "x", "no").unwrap(), "c.toml:3: quiet = \"x\": no");
        assert_eq!(settings.invalid_value("--timeout", "x", "no"), None);
    }
}
