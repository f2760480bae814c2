//! Robots directives of single pages: `<meta name=robots>` and the header `X-Robots-Tag`. Their syntax is known only here.

/// The directives of a page for crawlers, in `<meta name=robots>` or in the header `X-Robots-Tag`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RobotsDirectives {
    /// Do not follow the page's links. The crawl obeys it, unless it ignores robots.txt.
    pub nofollow: bool,
    /// Do not show the page in search results. The page is crawled all the same.
    pub noindex: bool,
    /// Do not show a stored copy of the page. The page is crawled all the same.
    pub noarchive: bool,
}

impl RobotsDirectives {
    /// The names of the directives.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [("nofollow", self.nofollow), ("noindex", self.noindex), ("noarchive", self.noarchive)];
        all.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name)
    }

    /// Adds the directives of `<meta name="NAME" content="CONTENT">`, if NAME is `robots` or the crawler's, or a list with one of
    /// them.
    pub(crate) fn add_meta(&mut self, name: &str, content: &str, product_token: &str) {
        let is_ours = |name: &str| !name.is_empty() && name.eq_ignore_ascii_case(product_token);
        let mut names = name.split(',').map(str::trim);
        if names.any(|name| is_ours(name) || name.eq_ignore_ascii_case("robots")) {
            // A directive with a value is none of these.
            content.split([',', ';']).filter(|item| !item.contains(':')).for_each(|item| self.add(item));
        }
    }

    /// Adds the directives of an X-Robots-Tag header, except those after the name of another crawler.
    pub(crate) fn add_header(&mut self, value: &str, product_token: &str) {
        let mut is_ours = true;
        for item in value.split(',') {
            let directives = match item.split_once(':') {
                None => item,
                Some((name, directives)) if is_crawler_name(name.trim()) => {
                    is_ours = name.trim().eq_ignore_ascii_case(product_token);
                    directives
                }
                Some(_) => continue,
            };
            if is_ours {
                self.add(directives);
            }
        }
    }

    /// Adds directives that are separated by white space, as some pages have them.
    fn add(&mut self, directives: &str) {
        for word in directives.split_whitespace() {
            let is = |name: &str| word.eq_ignore_ascii_case(name);
            self.nofollow |= is("nofollow") || is("none");
            self.noindex |= is("noindex") || is("none");
            self.noarchive |= is("noarchive");
        }
    }
}

/// Whether the text before a colon is the name of a crawler, and not that of a directive with a value, `unavailable_after` or
/// `max-…`, or a part of a date.
fn is_crawler_name(text: &str) -> bool {
    let is_limit = text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("max-"));
    let is_directive = is_limit || text.eq_ignore_ascii_case("unavailable_after");
    !text.is_empty() && !text.contains(char::is_whitespace) && !is_directive
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(value: &str) -> String {
        let mut directives = RobotsDirectives::default();
        directives.add_header(value, "mybot");
        directives.names().collect::<Vec<_>>().join(" ")
    }

    fn meta(name: &str, content: &str) -> String {
        let mut directives = RobotsDirectives::default();
        directives.add_meta(name, content, "mybot");
        directives.names().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn directives_are_read_from_lists_in_any_case() {
        for (list, expected) in [
            ("noindex, NoFollow", "nofollow noindex"),
            ("none", "nofollow noindex"),
            ("noarchive,nosnippet", "noarchive"),
            ("index, follow, all", ""),
            ("nofollowing", ""),
            ("noindex nofollow", "nofollow noindex"),
            ("max-image-preview: none, noarchive", "noarchive"),
            ("max-image-preview:none", ""),
            ("max-foo:1, nofollow", "nofollow"),
            ("", ""),
        ] {
            assert_eq!(header(list), expected, "{list}");
            assert_eq!(meta("robots", list), expected, "{list}");
        }
    }

    #[test]
    fn meta_element_counts_if_it_is_for_all_crawlers_or_for_this_one() {
        for name in ["robots", "ROBOTS", " robots ", "mybot", "MyBot", "robots,otherbot", "otherbot , mybot"]
        {
            assert_eq!(meta(name, "nofollow"), "nofollow", "{name}");
        }
        for name in ["googlebot", "robot", "mybot2", "", "description"] {
            assert_eq!(meta(name, "nofollow"), "", "{name}");
        }
    }

    #[test]
    fn header_can_be_addressed_to_crawlers() {
        for (value, expected) in [
            ("mybot: nofollow", "nofollow"),
            ("MyBot : nofollow, noindex", "nofollow noindex"),
            ("otherbot: nofollow, noindex", ""),
            ("noarchive, otherbot: nofollow, noindex", "noarchive"),
            ("otherbot: noindex, mybot: nofollow", "nofollow"),
            ("unavailable_after: Saturday, 25 Jun 2010 15:00:00 GMT, nofollow", "nofollow"),
            (": nofollow", ""),
        ] {
            assert_eq!(header(value), expected, "{value}");
        }
    }

    #[test]
    fn crawler_without_a_name_obeys_what_is_for_all() {
        let mut directives = RobotsDirectives::default();
        directives.add_meta("", "nofollow", "");
        directives.add_header("x: nofollow", "");
        assert_eq!(directives, RobotsDirectives::default());
        directives.add_meta("robots", "nofollow", "");
        assert!(directives.nofollow);
    }
}
