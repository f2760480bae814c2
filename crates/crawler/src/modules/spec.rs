//! Splits the arguments of a module, `PATH,key=value,flag`, at the commas that separate options.

/// The path and the options of a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spec<'a> {
    /// The file or directory.
    pub(super) path: &'a str,
    /// The options in the order given, each with its value if it has one.
    pub(super) options: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Spec<'a> {
    /// Splits arguments. A comma separates only where an option follows, so that paths and values may contain commas: a `key=`
    /// or a flag for which `is_option` holds. In a value, commas within brackets, parentheses or quotes do not separate.
    pub(super) fn split(arguments: &'a str, is_option: impl Fn(&str) -> bool) -> Spec<'a> {
        let option_at = |start: usize| {
            let option = &arguments[start..];
            let end = option.find([',', '=']).unwrap_or(option.len());
            is_option(&option[..end])
        };
        let mut separators = Vec::new();
        let mut nesting = Nesting::default();
        for (position, byte) in arguments.bytes().enumerate() {
            if byte == b',' && nesting.is_top_level() && option_at(position + 1) {
                separators.push(position);
            } else if !separators.is_empty() {
                nesting.add(byte);
            }
        }
        let ends = separators.iter().skip(1).copied().chain([arguments.len()]);
        let options = separators.iter().zip(ends).map(|(separator, end)| {
            let option = &arguments[separator + 1..end];
            option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)))
        });
        let path_end = separators.first().copied().unwrap_or(arguments.len());
        Spec { path: &arguments[..path_end], options: options.collect() }
    }
}

/// The word after a comma in the name of a file or directory, if it looks like an option: `word` or `word=value`. It was more
/// likely meant as one than as a part of the name.
pub(super) fn unknown_option(path: &str) -> Option<&str> {
    let is_word = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_alphabetic())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    name.split(',').skip(1).find_map(|part| part.split('=').next().filter(is_word))
}

/// How deep a position is within brackets, parentheses and quotes.
#[derive(Default)]
pub(super) struct Nesting {
    depth: usize,
    quote: Option<u8>,
}

impl Nesting {
    pub(super) fn is_top_level(&self) -> bool {
        self.depth == 0 && self.quote.is_none()
    }

    pub(super) fn add(&mut self, byte: u8) {
        match (self.quote, byte) {
            (Some(quote), _) => self.quote = self.quote.filter(|_| byte != quote),
            (None, b'"' | b'\'') => self.quote = Some(byte),
            (None, b'[' | b'(') => self.depth += 1,
            (None, b']' | b')') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comma_separates_only_before_an_option() {
        let spec = Spec::split("a,b's [1,fields.jsonl,fields=url,title,distinct", |key| {
            ["fields", "distinct"].contains(&key)
        });
        assert_eq!(spec.path, "a,b's [1,fields.jsonl");
        assert_eq!(spec.options, [("fields", Some("url,title")), ("distinct", None)]);
        let spec = Spec::split("it's,a=b", |_| false);
        assert_eq!(spec, Spec { path: "it's,a=b", options: Vec::new() });
        assert_eq!(Spec::split("", |_| true), Spec { path: "", options: Vec::new() });
    }

    #[test]
    fn word_after_a_comma_is_an_option_and_other_names_are_names() {
        for (path, option) in [
            ("f.jsonl,foo=1", Some("foo")),
            ("/tmp/f.jsonl,feilds=url,title", Some("feilds")),
            ("f,url", Some("url")),
            ("a,b=c/f.jsonl", None),
            ("a,b.jsonl", None),
            ("a,b/c.jsonl", None),
            ("Smith, John", None),
            ("1,000", None),
            ("a=b.jsonl", None),
        ] {
            assert_eq!(unknown_option(path), option, "{path}");
        }
    }

    #[test]
    fn brackets_and_quotes_protect_commas() {
        let is_name = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let spec = Spec::split("f,x=:is(a,b=c), h1,y=a[t=\"q,r=s\"],z=", is_name);
        assert_eq!(spec.path, "f");
        assert_eq!(
            spec.options,
            [("x", Some(":is(a,b=c), h1")), ("y", Some("a[t=\"q,r=s\"]")), ("z", Some(""))]
        );
    }
}
