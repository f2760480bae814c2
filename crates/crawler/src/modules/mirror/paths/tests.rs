use proptest::prelude::*;

use super::*;

fn html() -> FileType {
    FileType::new(Some("text/html"), None, "/")
}

fn paths(urls: &[&str]) -> Vec<String> {
    let urls: Vec<_> = urls.iter().map(|url| (*url, html())).collect();
    assign(&urls)
}

/// The path of an HTML page that is alone in its mirror.
fn path(url: &str) -> String {
    paths(&[url]).remove(0)
}

#[test]
fn path_is_that_of_the_url_below_a_directory_of_the_host() {
    for (url, expected) in [
        ("http://h.test/", "h.test/index.html"),
        ("http://h.test:8080/docs/", "h.test+8080/docs/index.html"),
        ("https://h.test/docs/intro", "h.test/docs/intro.html"),
        ("https://h.test/docs/intro.htm", "h.test/docs/intro.htm"),
        ("http://h.test/page.php?id=3&lang=en", "h.test/page.php@id=3&lang=en.html"),
        ("http://h.test/a/?q=x/y", "h.test/a/index@q=x_y.html"),
        ("http://h.test/caf%C3%A9/%E6%97%A5%E6%9C%AC", "h.test/café/日本.html"),
        ("http://h.test/latin%E9", "h.test/latin%E9.html"),
        ("http://h.test/100%25#x", "h.test/100%.html"),
        ("http://[::1]:8080/", "__1+8080/index.html"),
        ("http://127.0.0.1/", "127.0.0.1/index.html"),
    ] {
        assert_eq!(path(url), expected, "{url}");
    }
}

#[test]
fn names_that_some_system_refuses_or_interprets_are_changed() {
    for (url, expected) in [
        ("http://h.test/a%2F..%2Fb", "h.test/a_.._b.html"),
        ("http://h.test/..%2F..%2Fetc%2Fpasswd", "h.test/_._.._etc_passwd.html"),
        ("http://h.test/a%00b%0A%1B%7F", "h.test/a_b___.html"),
        ("http://h.test/a:b%3Cc%3E%22%7C%3F*%5C", "h.test/a_b_c______.html"),
        ("http://h.test/.git/config", "h.test/_git/config.html"),
        ("http://h.test/.../x", "h.test/___/x.html"),
        ("http://h.test/a./b%20/c", "h.test/a_/b_/c.html"),
        ("http://h.test//a", "h.test/_/a.html"),
        ("http://h.test/CON/nul.txt/com1/Lpt%C2%B9.x/aux", "h.test/_CON/_nul.txt/_com1/_Lpt¹.x/_aux.html"),
        ("http://h.test/console/null/com10", "h.test/console/null/com10.html"),
        ("http://aux/", "_aux/index.html"),
        ("http://h.test/LONGNA~1/~user", "h.test/_LONGNA~1/~user.html"),
        ("http://h.test/a%E2%80%AEfdp.x", "h.test/a_fdp.x.html"),
    ] {
        assert_eq!(path(url), expected, "{url}");
    }
}

#[test]
fn urls_with_the_same_path_get_different_files() {
    let with_hash = |path: &str, stem: &str, end: &str| {
        let hash = path.strip_prefix(stem).and_then(|rest| rest.strip_suffix(end));
        let hash = hash.unwrap_or_else(|| panic!("{path} is not {stem}~…{end}"));
        assert!(hash.len() == HASH_BYTES && hash.starts_with('~'), "{path}");
    };
    let found = paths(&["http://h.test/a", "http://h.test/A", "http://h.test/a.html"]);
    assert_eq!(found[2], "h.test/a.html", "the file is named as in the URL");
    with_hash(&found[0], "h.test/a", ".html");
    with_hash(&found[1], "h.test/A", ".html");
    let found = paths(&["http://h.test/index.html", "http://h.test/", "https://h.test/"]);
    assert_eq!(found[1], "h.test/index.html", "the start page");
    with_hash(&found[0], "h.test/index", ".html");
    with_hash(&found[2], "h.test/index", ".html");
    // The composed and the decomposed form, and letters that are equal in upper case.
    let found = paths(&["http://h.test/%C3%A9", "http://h.test/e%CC%81", "http://h.test/%C3%89"]);
    assert_eq!(found.iter().map(|path| fold(path)).collect::<HashSet<_>>().len(), 3, "{found:?}");
    let found = paths(&["http://h.test/stra%C3%9Fe", "http://h.test/STRASSE"]);
    assert_ne!(fold(&found[0]), fold(&found[1]), "{found:?}");
}

#[test]
fn name_of_a_directory_is_not_the_name_of_a_file() {
    let found = paths(&[
        "http://h.test/a.html",
        "http://h.test/A.html/b.html",
        "http://h.test/docs",
        "http://h.test/docs/x",
    ]);
    assert!(found[0].starts_with("h.test/a~") && found[0].ends_with(".html"), "{found:?}");
    assert_eq!(found[1..], ["h.test/A.html/b.html", "h.test/docs.html", "h.test/docs/x.html"]);
    assert_eq!(path("http://mirror.jsonl/"), "_mirror.jsonl/index.html", "the list has this name");
}

#[test]
fn long_names_and_paths_are_shortened_and_stay_different() {
    let name = "x".repeat(300);
    let found = paths(&[
        &format!("http://h.test/{name}1?{name}"),
        &format!("http://h.test/{name}2.html"),
        &format!("http://h.test/{name}/a"),
        &format!("http://h.test/{name}/b"),
        &format!("http://{}/", ["y".repeat(60).as_str(); 4].join(".")),
        &format!("http://h.test/{}c", "deep/".repeat(60)),
        &format!("http://h.test/{}d", "deep/".repeat(60)),
        &format!("http://h.test/{}", "%E6%97%A5".repeat(150)),
        &format!("http://h.test/{}/{name}", "%E6%97%A5".repeat(60)),
    ]);
    for path in &found {
        assert!(path.len() <= MAX_PATH_BYTES && path.ends_with(".html"), "{path}");
        assert!(path.split('/').all(|name| name.len() <= MAX_NAME_BYTES), "{path}");
    }
    let directory = |index: usize| found[index].rsplit_once('/').unwrap().0;
    assert_eq!(directory(2), directory(3), "files of a directory stay together");
    assert_eq!(directory(5), directory(6));
    assert_eq!(found.iter().collect::<HashSet<_>>().len(), found.len());
}

/// URLs that are likely to clash, and hostile ones.
fn urls() -> impl Strategy<Value = Vec<String>> {
    let segment = prop_oneof![
        4 => "[abAB]{1,2}(\\.html|\\.HTML|\\.css|\\.)?",
        2 => "(%[0-9A-F]{2}){1,4}",
        2 => "(%C3%89|%C3%A9|e%CC%81|E%CC%81|%C3%9F|ss|%EF%BC%8F|%E2%84%AA|k|%C4%B1|i|%CF%82|%CF%83|%EF%AC%81|fi){1,2}",
        1 => "(con|NUL|\\.git|%20|%2E%2E|%2F|index|index\\.html|a~1|~[0-9a-f]{16})(\\.html)?",
        1 => "[ab]{180,260}",
        1 => Just(String::new()),
    ];
    let url = (
        prop_oneof!["https?://(h|H|con|a\\.b|mirror.jsonl)(:81)?", Just("http://[::1]".to_owned())],
        prop::collection::vec(segment, 0..5),
        "(\\?[ab=&/%2?]{0,4})?",
    );
    let url = url.prop_filter_map("a URL", |(host, segments, query)| {
        crate::html::normalize(&format!("{host}/{}{query}", segments.join("/"))).ok().map(String::from)
    });
    prop::collection::hash_set(url, 1..40).prop_map(|urls| urls.into_iter().collect())
}

fn types() -> impl Strategy<Value = Vec<FileType>> {
    let content_type = prop_oneof![
        Just("text/html"),
        Just("text/css"),
        Just("image/png"),
        Just("text/plain"),
        Just("application/x-other")
    ];
    prop::collection::vec(content_type.prop_map(|it| FileType::new(Some(it), None, "/")), 40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn paths_are_safe_and_different_and_do_not_depend_on_the_order(
        urls in urls(), types in types(), shift in 0usize..40,
    ) {
        let mut set: Vec<(&str, FileType)> = urls.iter().map(String::as_str).zip(types).collect();
        let found = assign(&set);
        let files: HashSet<String> = found.iter().map(|path| fold(path)).collect();
        prop_assert_eq!(files.len(), found.len(), "{:?}", found);
        for path in &found {
            prop_assert!(path.len() <= MAX_PATH_BYTES);
            for name in path.split('/') {
                prop_assert!(!name.is_empty() && name.len() <= MAX_NAME_BYTES, "{:?}", path);
                prop_assert!(!name.starts_with(['.', ' ']) && !name.ends_with(['.', ' ']), "{:?}", path);
                prop_assert!(!name.contains(is_unsafe) && !is_device(name), "{:?}", path);
            }
            for (slash, _) in path.match_indices('/') {
                prop_assert!(!files.contains(&fold(&path[..slash])), "{:?} is a file and a directory", path);
            }
            prop_assert!(path.contains('/') && !path.starts_with("mirror.jsonl/"));
        }
        let shift = shift % set.len();
        set.rotate_left(shift);
        let mut rotated = assign(&set);
        rotated.rotate_right(shift);
        prop_assert_eq!(rotated, found);
    }
}
