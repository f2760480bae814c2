//! Counts the URLs of a crawl by host and directory, in bounded memory however many there are.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crawler::internal::origin::{origin_prefix, throttle_key};

use super::content::StructureNode;

/// How many nodes are counted at a time. If there are more, half of them are given up: those with the fewest URLs.
const MAX_COUNTED: usize = 50_000;

/// How many nodes the structure has.
const MAX_NODES: usize = 3_000;

/// How many children a node has.
const MAX_CHILDREN: usize = 200;

/// How many levels of directories are distinguished.
const MAX_LEVELS: usize = 8;

/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = 120;

/// How many of the nodes that were given up are remembered, so that each is counted once.
const MAX_GIVEN_UP: usize = 500_000;

/// Stands for the hosts of URLs that are not stored.
const NOT_STORED: &str = "(URLs that are not stored)";

/// The hosts and directories of a crawl.
pub struct Structure {
    root: Counted,
    /// How many nodes the tree has.
    len: usize,
    /// The nodes that were given up.
    given_up: HashSet<u64>,
    max_counted: usize,
}

/// What became of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlGroup {
    Page,
    Failed,
    Other,
}

/// A host or directory with the totals of everything below.
#[derive(Default)]
struct Counted {
    /// Identifies the node among all that there have been.
    id: u64,
    pages: u64,
    urls: u64,
    failed: u64,
    children: HashMap<Box<str>, Counted>,
    /// How many children were given up, and their URLs.
    omitted: (u64, u64),
}

impl Default for Structure {
    fn default() -> Structure {
        Structure { root: Counted::default(), len: 0, given_up: HashSet::new(), max_counted: MAX_COUNTED }
    }
}

impl Structure {
    /// Counts a URL; `None` if it is not stored.
    pub fn add(&mut self, url: Option<&str>, group: UrlGroup) {
        self.root.count(group);
        let mut node = &mut self.root;
        for name in names(url) {
            let name = shortened(name);
            let id = child_id(node.id, name);
            if !node.children.contains_key(name) {
                self.len += 1;
                if self.given_up.remove(&id) {
                    node.omitted.0 -= 1;
                }
            }
            node = node.children.entry(name.into()).or_insert_with(|| Counted { id, ..Counted::default() });
            node.count(group);
        }
        while self.len > self.max_counted {
            self.give_up();
        }
    }

    /// Gives nodes without children up, those with the fewest URLs, until half of the nodes are left or only others.
    fn give_up(&mut self) {
        let mut sizes = Vec::new();
        self.root.each_leaf(&mut |urls| sizes.push(urls));
        let excess = (self.len - self.max_counted / 2).min(sizes.len());
        sizes.sort_unstable();
        let largest = sizes[excess - 1];
        let smaller = sizes.partition_point(|size| *size < largest);
        let mut removal = Removal { largest, ties: excess - smaller, given_up: &mut self.given_up };
        self.root.remove_leaves(&mut removal);
        self.len -= excess;
    }

    /// The hosts and directories with the most URLs.
    pub fn into_nodes(self) -> StructureNode {
        // A node has at least as many URLs as those below it, so the ones with the most URLs are a tree.
        let mut ranks = Vec::with_capacity(self.len);
        self.root.each_rank(0, &mut |rank| ranks.push(rank));
        ranks.sort_unstable();
        ranks.truncate(MAX_NODES);
        let last = ranks.last().copied().unwrap_or((Reverse(0), 0));
        let ties = ranks.len() - ranks.partition_point(|rank| *rank < last);
        self.root.into_node(String::new(), 0, &mut Selection { last, ties })
    }
}

/// Which leaves are removed.
struct Removal<'r> {
    /// All with fewer URLs.
    largest: u64,
    /// And this many with this number of URLs.
    ties: usize,
    given_up: &'r mut HashSet<u64>,
}

/// The place of a node: the more URLs, the better, then the smaller its level.
type Rank = (Reverse<u64>, usize);

/// Which nodes are shown.
struct Selection {
    /// All with a better rank.
    last: Rank,
    /// And this many with this one.
    ties: usize,
}

impl Selection {
    fn takes(&mut self, rank: Rank) -> bool {
        let is_tie = rank == self.last && self.ties > 0;
        if is_tie {
            self.ties -= 1;
        }
        is_tie || rank < self.last
    }
}

impl Counted {
    fn count(&mut self, group: UrlGroup) {
        self.urls += 1;
        self.pages += u64::from(group == UrlGroup::Page);
        self.failed += u64::from(group == UrlGroup::Failed);
    }

    fn each_leaf(&self, each: &mut impl FnMut(u64)) {
        for child in self.children.values() {
            match child.children.is_empty() {
                true => each(child.urls),
                false => child.each_leaf(each),
            }
        }
    }

    fn remove_leaves(&mut self, removal: &mut Removal) {
        let omitted = &mut self.omitted;
        self.children.retain(|_, child| {
            if !child.children.is_empty() {
                child.remove_leaves(removal);
                return true;
            }
            let is_tie = child.urls == removal.largest && removal.ties > 0;
            if is_tie {
                removal.ties -= 1;
            }
            let is_removed = is_tie || child.urls < removal.largest;
            if is_removed {
                omitted.1 += child.urls;
                let is_full = removal.given_up.len() >= MAX_GIVEN_UP;
                omitted.0 += u64::from(is_full || removal.given_up.insert(child.id));
            }
            !is_removed
        });
    }

    fn each_rank(&self, level: usize, each: &mut impl FnMut(Rank)) {
        for child in self.children.values() {
            each((Reverse(child.urls), level));
            child.each_rank(level + 1, each);
        }
    }

    fn into_node(self, name: String, level: usize, selection: &mut Selection) -> StructureNode {
        let Counted { pages, urls, failed, children, mut omitted, .. } = self;
        let mut children: Vec<(Box<str>, Counted)> = children.into_iter().collect();
        children.sort_unstable_by(|(name, node), (other_name, other)| {
            (Reverse(node.urls), name).cmp(&(Reverse(other.urls), other_name))
        });
        let mut nodes = Vec::new();
        for (name, child) in children {
            match nodes.len() < MAX_CHILDREN && selection.takes((Reverse(child.urls), level)) {
                true => nodes.push((name, child)),
                false => omitted = (omitted.0 + 1, omitted.1 + child.urls),
            }
        }
        let nodes = nodes.into_iter().map(|(name, child)| child.into_node(name.into(), level + 1, selection));
        StructureNode { name, pages, urls, failed, children: nodes.collect(), omitted }
    }
}

/// The host and the directories of a URL.
fn names(url: Option<&str>) -> impl Iterator<Item = &str> {
    let host = url.map_or(NOT_STORED, throttle_key);
    let path = url.and_then(|url| url.strip_prefix(origin_prefix(url))).unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let directories = path.rsplit_once('/').map_or("", |(directories, _)| directories);
    let directories = directories.split('/').filter(|name| !name.is_empty());
    std::iter::once(host).chain(directories.take(MAX_LEVELS))
}

fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}

fn child_id(parent: u64, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (parent, name).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn len(node: &StructureNode) -> usize {
        1 + node.children.iter().map(len).sum::<usize>()
    }

    /// Checks that the URLs of each node are those of its children, those that are omitted, and its own.
    fn check_totals(node: &StructureNode) {
        let below: u64 = node.children.iter().map(|child| child.urls).sum();
        assert!(below + node.omitted.1 <= node.urls, "{}", node.name);
        node.children.iter().for_each(check_totals);
    }

    #[test]
    fn urls_are_counted_by_host_and_directory() {
        let mut structure = Structure::default();
        for (url, group) in [
            ("http://a.test/", UrlGroup::Page),
            ("http://a.test/x/y/1?q=/z/", UrlGroup::Page),
            ("http://a.test/x/y/2", UrlGroup::Failed),
            ("https://a.test/x/", UrlGroup::Other),
            ("http://b.test:8080/x", UrlGroup::Page),
        ] {
            structure.add(Some(url), group);
        }
        structure.add(None, UrlGroup::Failed);
        let root = structure.into_nodes();
        assert_eq!((root.urls, root.pages, root.failed, root.omitted), (6, 3, 2, (0, 0)));
        let names: Vec<&str> = root.children.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a.test", NOT_STORED, "b.test:8080"]);
        let a = &root.children[0];
        let x = &a.children[0];
        assert_eq!((a.urls, x.name.as_str(), x.urls), (4, "x", 3));
        assert_eq!((x.children[0].name.as_str(), x.children[0].failed), ("y", 1));
    }

    #[test]
    fn many_hosts_and_directories_take_bounded_memory_and_the_largest_stay() {
        let mut structure = Structure { max_counted: 1_000, ..Structure::default() };
        for number in 0..20_000 {
            structure.add(Some(&format!("http://h{number}.test/")), UrlGroup::Page);
            structure.add(Some(&format!("http://a.test/d{number}/{number}")), UrlGroup::Page);
            structure.add(Some("http://large.test/d/x"), UrlGroup::Page);
            assert!(structure.len <= 1_000);
        }
        let root = structure.into_nodes();
        assert_eq!((root.urls, root.children.len()), (60_000, MAX_CHILDREN));
        let largest = |name: &str| root.children.iter().find(|node| node.name == name).unwrap();
        assert_eq!((largest("large.test").urls, largest("a.test").urls), (20_000, 20_000));
        // Each of 20,002 hosts counts once.
        assert_eq!(root.omitted.0, 20_002 - MAX_CHILDREN as u64);
        assert_eq!(largest("a.test").omitted.0, 20_000 - largest("a.test").children.len() as u64);
        assert!(len(&root) <= MAX_NODES + 1);
        check_totals(&root);
    }

    #[test]
    fn long_names_and_deep_directories_are_cut() {
        let mut structure = Structure::default();
        let url = format!("http://a.test/{}/{}x", "ä".repeat(500), "d/".repeat(500));
        structure.add(Some(&url), UrlGroup::Other);
        let root = structure.into_nodes();
        let directory = &root.children[0].children[0];
        assert_eq!((len(&root), directory.name.len()), (2 + MAX_LEVELS, MAX_NAME_BYTES));
    }
}
