//! Spellings of a link that are equivalent by the URL and HTML standards.

use super::Random;

/// A URL reference to `path` from a page at `base`, both on `origin`, without HTML escapes.
pub(super) fn reference(path: &str, base: &str, origin: &str, random: &mut Random) -> String {
    let (scheme, authority) = origin.split_once(':').unwrap_or(("http", origin));
    match random.below(8) {
        0 => format!("{origin}{path}"),
        1 => format!("{authority}{path}"),
        2 => format!("{}:{authority}{path}", scheme.to_ascii_uppercase()),
        3 => format!("/not/./there/../..{path}"),
        4 | 5 => relative(path, base),
        6 => format!("./{}", relative(path, base)),
        _ => path.to_owned(),
    }
}

/// The relative reference from one path to another.
fn relative(path: &str, base: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let base = &base[..base.find('?').unwrap_or(base.len())];
    let mut from: Vec<&str> = base.split('/').collect();
    let mut to: Vec<&str> = path.split('/').collect();
    let name = to.pop().unwrap_or_default();
    from.pop();
    let common = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
    let up = "../".repeat(from.len() - common);
    let down: String = to[common..].iter().flat_map(|name| [name, "/"]).collect();
    match format!("{up}{down}{name}") {
        here if here.is_empty() => format!("./{query}"),
        relative => format!("{relative}{query}"),
    }
}

/// The attribute `name` with a URL reference as its value, with random quoting and escaping.
pub(super) fn attribute(name: &str, reference: &str, random: &mut Random) -> String {
    let mut value = reference.to_owned();
    if random.chance(6) {
        value += random.one_of(&["#part", "#", "#a/b?c"]);
    }
    if random.chance(2) {
        value = value.replace("%C3%A9", "é");
    }
    let name = match random.below(4) {
        0 => name.to_ascii_uppercase(),
        1 => name[..1].to_ascii_uppercase() + &name[1..],
        _ => name.to_owned(),
    };
    let equals = random.one_of(&["=", "=", " = ", "\n=\t"]);
    let quote = random.one_of(&["\"", "\"", "'", ""]);
    if !quote.is_empty() && random.chance(2) {
        value = value.replace("%20", " ");
    }
    value = escaped(&value, random);
    if !quote.is_empty() && random.chance(6) {
        value = format!(" \n{value}\t ");
    }
    if value.is_empty() && quote.is_empty() {
        return format!("{name}{equals}\"\"");
    }
    format!("{name}{equals}{quote}{value}{quote}")
}

/// Replaces some characters by HTML character references. An ampersand may stay where it is unambiguous.
pub(super) fn escaped(value: &str, random: &mut Random) -> String {
    let ampersand = random.one_of(&["&amp;", "&#38;", "&#x26;", "&"]);
    let slash = random.one_of(&["/", "/", "/", "&#47;", "&#x2F;", "&sol;"]);
    value.replace('&', ampersand).replace('/', slash)
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn relative_reference_goes_up_to_the_common_directory_and_down() {
        assert_eq!(relative("/a/b", "/a/c"), "b");
        assert_eq!(relative("/a/b", "/a/c/d"), "../b");
        assert_eq!(relative("/", "/a/c/d"), "../../");
        assert_eq!(relative("/a/", "/a/c"), "./");
        assert_eq!(relative("/a/?x=1", "/a/c?y=/z/"), "./?x=1");
        assert_eq!(relative("/b/c/", "/a/d"), "../b/c/");
    }
}
