//! A list of URLs in one buffer: a page has hundreds of links, and most of them need no copy of their own.

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list of URLs in one buffer: the links of a [`Page`](crate::Page).
///
/// ```
/// use crawler::Page;
///
/// fn links_to_images(page: &Page) -> usize {
///     page.links.iter().filter(|link| link.ends_with(".png")).count()
/// }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UrlList {
    text: String,
    /// Where each URL ends in the text.
    ends: Vec<usize>,
}

impl UrlList {
    /// Reserves memory for this many further URLs of common length.
    pub(crate) fn reserve(&mut self, urls: usize) {
        self.text.reserve(64 * urls);
        self.ends.reserve(urls);
    }

    /// An empty list with room for all URLs of this one.
    pub(crate) fn with_capacity_of(other: &UrlList) -> UrlList {
        UrlList { text: String::with_capacity(other.text.len()), ends: Vec::with_capacity(other.ends.len()) }
    }

    /// Appends a URL.
    pub(crate) fn push(&mut self, url: &str) {
        self.text.push_str(url);
        self.ends.push(self.text.len());
    }

    /// Keeps only the URLs for which `keep` returns true, in place. It is called with the index of each URL.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize, &str) -> bool) {
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        let (mut start, mut kept, mut kept_bytes) = (0, 0, 0);
        for index in 0..self.ends.len() {
            let end = self.ends[index];
            // The text was UTF-8 and is cut between URLs only.
            if keep(index, std::str::from_utf8(&bytes[start..end]).unwrap_or_default()) {
                bytes.copy_within(start..end, kept_bytes);
                kept_bytes += end - start;
                self.ends[kept] = kept_bytes;
                kept += 1;
            }
            start = end;
        }
        bytes.truncate(kept_bytes);
        self.ends.truncate(kept);
        self.text = String::from_utf8(bytes).unwrap_or_default();
    }

    /// The number of URLs.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no URLs.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The URLs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.text[std::mem::replace(&mut start, end)..end])
    }
}

impl<U: AsRef<str>> Extend<U> for UrlList {
    fn extend<I: IntoIterator<Item = U>>(&mut self, urls: I) {
        urls.into_iter().for_each(|url| self.push(url.as_ref()));
    }
}

impl<U: AsRef<str>> FromIterator<U> for UrlList {
    fn from_iter<I: IntoIterator<Item = U>>(urls: I) -> UrlList {
        let mut list = UrlList::default();
        list.extend(urls);
        list
    }
}

impl std::fmt::Debug for UrlList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for UrlList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for UrlList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UrlList, D::Error> {
        struct UrlListVisitor;
        impl<'de> Visitor<'de> for UrlListVisitor {
            type Value = UrlList;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of URLs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut urls: A) -> Result<UrlList, A::Error> {
                let mut list = UrlList::default();
                while let Some(url) = urls.next_element::<&str>()? {
                    list.push(url);
                }
                Ok(list)
            }
        }
        deserializer.deserialize_seq(UrlListVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retained_urls_stay_in_order() {
        let urls = ["http://a/", "http://bb/é", "", "http://c/", "http://dddd/"];
        for kept in 0..1 << urls.len() {
            let mut list: UrlList = urls.iter().collect();
            list.retain(|index, url| url == urls[index] && kept >> index & 1 == 1);
            let expected: Vec<&str> =
                (0..urls.len()).filter(|index| kept >> index & 1 == 1).map(|index| urls[index]).collect();
            assert_eq!(list.iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn list_returns_what_was_pushed_in_order() {
        let urls = ["http://a/", "", "http://b/é", "http://a/"];
        let list: UrlList = urls.iter().collect();
        assert_eq!(list.iter().collect::<Vec<_>>(), urls);
        assert_eq!((list.len(), list.is_empty(), UrlList::default().is_empty()), (4, false, true));
        assert_eq!(format!("{list:?}"), format!("{urls:?}"));
        assert_eq!(serde_json::to_string(&list).unwrap(), serde_json::to_string(&urls).unwrap());
    }
}
