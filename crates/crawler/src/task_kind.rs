//! What a task is fetched for. The kind of a task that is no page is the fragment of its URL.
//!
//! The URL of a page has no fragment, so queues, leases, storages and messages carry the kind without another field, and the
//! seen set and the records distinguish a page from, say, a sitemap of the same URL.

use url::Url;

use crate::origin::without_credentials;
use crate::task::Depth;

/// The depth of a page's own requisites.
pub const REQUISITE_DEPTH: Depth = 1;

/// What a task is fetched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// A page, whose links are followed.
    Page,
    /// A sitemap. Its depth is the number of sitemap indexes that led to it.
    Sitemap,
    /// A file that a browser loads to show a page. Its depth is 1, and one more for each stylesheet that led to it.
    Requisite,
    /// A link that is checked and not followed.
    Probe,
}

impl TaskKind {
    const ALL: [TaskKind; 4] = [TaskKind::Page, TaskKind::Sitemap, TaskKind::Requisite, TaskKind::Probe];

    /// The kind of a task.
    pub fn from_task_url(task_url: &str) -> TaskKind {
        // Looks at the end only, because this is called a few dozen times for each page.
        let has_fragment = |kind: &TaskKind| {
            let before = kind.fragment().and_then(|fragment| task_url.strip_suffix(fragment));
            before.is_some_and(|before| before.ends_with('#'))
        };
        TaskKind::ALL.into_iter().find(has_fragment).unwrap_or(TaskKind::Page)
    }

    /// The name of the kind, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Page => "page",
            TaskKind::Sitemap => "sitemap",
            TaskKind::Requisite => "requisite",
            TaskKind::Probe => "probe",
        }
    }

    /// The kind with this [name](TaskKind::name).
    pub fn from_name(name: &str) -> Option<TaskKind> {
        TaskKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn fragment(self) -> Option<&'static str> {
        (self != TaskKind::Page).then(|| self.name())
    }

    /// The URL of the task of this kind that fetches a URL.
    pub fn task_url(self, url: &Url) -> String {
        let mut url = without_credentials(url);
        url.set_fragment(self.fragment());
        url.into()
    }

    /// The URL of the task of this kind that fetches a normalized URL, which has no fragment.
    pub fn task_url_of(self, url: &str) -> String {
        match self.fragment() {
            None => url.to_owned(),
            Some(fragment) => format!("{url}#{fragment}"),
        }
    }

    /// The tasks that may fetch a normalized URL.
    pub fn task_urls_of(url: &str) -> impl Iterator<Item = String> {
        TaskKind::ALL.into_iter().map(move |kind| kind.task_url_of(url))
    }
}

/// The URL of a task, as it is requested and shown.
pub fn shown_url(task_url: &str) -> &str {
    match TaskKind::from_task_url(task_url).fragment() {
        None => task_url,
        Some(fragment) => &task_url[..task_url.len() - fragment.len() - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_of_another_kind_differs_from_that_of_a_page() {
        let url = Url::parse("https://me:secret@a.test/sitemap?x=1").unwrap();
        for kind in TaskKind::ALL {
            let task = kind.task_url(&url);
            assert_eq!(TaskKind::from_task_url(&task), kind);
            assert_eq!(shown_url(&task), "https://a.test/sitemap?x=1");
            assert_eq!(kind.task_url_of("https://a.test/sitemap?x=1"), task);
            assert_eq!(TaskKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(TaskKind::Sitemap.task_url(&url), "https://a.test/sitemap?x=1#sitemap");
        assert_eq!(TaskKind::from_task_url("https://a.test/sitemap"), TaskKind::Page);
        assert_eq!(TaskKind::from_task_url("https://a.test/#other"), TaskKind::Page);
        assert_eq!(TaskKind::from_name("other"), None);
        assert_eq!(TaskKind::task_urls_of("http://a/").nth(2).unwrap(), "http://a/#requisite");
    }
}
