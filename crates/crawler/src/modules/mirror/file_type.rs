//! The file name extensions of content types. Without a server, a browser knows the type of a file by its extension only.

use std::borrow::Cow;

use crate::media::Media;

/// What the links of a file are converted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    /// As HTML.
    Html,
    /// As a stylesheet.
    Css,
    /// Not at all: the file has the bytes of the response.
    None,
}

/// A type of content: a place in [`TYPES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileType(u8);

struct Definition {
    /// Its media types.
    names: &'static [&'static str],
    /// The extensions by which browsers recognise it; the first is the one that is appended to other names.
    extensions: &'static [&'static str],
    /// Other extensions that it may have: of types that browsers recognise by content.
    also: &'static [&'static str],
}

const IMAGES: &[&str] = &[
    "png", "jpg", "jpeg", "jpe", "jfif", "gif", "webp", "avif", "apng", "bmp", "ico", "cur", "tif", "tiff",
    "jxl",
];
const FONTS: &[&str] = &["woff2", "woff", "ttf", "otf", "ttc", "eot"];
const MEDIA: &[&str] =
    &["mp4", "m4v", "m4a", "webm", "ogg", "ogv", "oga", "opus", "mp3", "wav", "flac", "aac", "mov"];

const HTML: FileType = FileType(0);
const XHTML: FileType = FileType(1);
const CSS: FileType = FileType(2);
const TEXT: FileType = FileType(3);
/// Content of any other type keeps its name.
const UNKNOWN: FileType = FileType(4);
const XML: FileType = FileType(5);
const SVG: FileType = FileType(6);

const TYPES: [Definition; 35] = [
    define(&["text/html"], &["html", "htm", "shtml", "shtm"], &[]),
    define(&["application/xhtml+xml"], &["xhtml", "xht"], &[]),
    define(&["text/css"], &["css"], &[]),
    define(&["text/plain"], &["txt"], &[]),
    define(&[], &[], &[]),
    define(
        &["text/xml", "application/xml", "application/rss+xml", "application/atom+xml"],
        &["xml", "rss", "atom", "rdf", "xsl", "xslt", "xsd"],
        &[],
    ),
    define(&["image/svg+xml"], &["svg"], &[]),
    define(
        &[
            "text/javascript",
            "application/javascript",
            "application/x-javascript",
            "text/ecmascript",
            "application/ecmascript",
        ],
        &["js", "mjs", "cjs"],
        &[],
    ),
    define(
        &["application/json", "application/ld+json", "application/manifest+json"],
        &["json", "webmanifest", "map", "geojson", "jsonld"],
        &[],
    ),
    define(&["image/png", "image/apng"], &["png"], IMAGES),
    define(&["image/jpeg", "image/jpg", "image/pjpeg"], &["jpg"], IMAGES),
    define(&["image/gif"], &["gif"], IMAGES),
    define(&["image/webp"], &["webp"], IMAGES),
    define(&["image/avif"], &["avif"], IMAGES),
    define(&["image/bmp", "image/x-ms-bmp"], &["bmp"], IMAGES),
    define(&["image/x-icon", "image/vnd.microsoft.icon"], &["ico"], IMAGES),
    define(&["image/tiff"], &["tif"], IMAGES),
    define(&["image/jxl"], &["jxl"], IMAGES),
    define(&["font/woff2", "application/font-woff2"], &["woff2"], FONTS),
    define(&["font/woff", "application/font-woff", "application/x-font-woff"], &["woff"], FONTS),
    define(&["font/ttf", "application/x-font-ttf", "font/sfnt"], &["ttf"], FONTS),
    define(&["font/otf", "application/x-font-opentype"], &["otf"], FONTS),
    define(&["application/vnd.ms-fontobject"], &["eot"], FONTS),
    define(&["video/mp4"], &["mp4"], MEDIA),
    define(&["video/webm", "audio/webm"], &["webm"], MEDIA),
    define(&["video/ogg"], &["ogv"], MEDIA),
    define(&["audio/ogg"], &["ogg"], MEDIA),
    define(&["audio/mpeg", "audio/mp3"], &["mp3"], MEDIA),
    define(&["audio/wav", "audio/x-wav", "audio/wave"], &["wav"], MEDIA),
    define(&["audio/mp4", "audio/x-m4a"], &["m4a"], MEDIA),
    define(&["text/vtt"], &["vtt"], &[]),
    define(&["application/pdf"], &["pdf"], &[]),
    define(&["application/wasm"], &["wasm"], &[]),
    define(
        &["application/zip"],
        &["zip"],
        &["jar", "docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "apk"],
    ),
    define(&["text/csv"], &["csv"], &[]),
];

const fn define(
    names: &'static [&'static str],
    extensions: &'static [&'static str],
    also: &'static [&'static str],
) -> Definition {
    Definition { names, extensions, also }
}

impl FileType {
    /// The type of content with this Content-Type header. What the crawl took for HTML is HTML, whatever the header says, and a
    /// stylesheet may have no header, or that of text.
    pub(super) fn new(content_type: Option<&str>, media: Option<Media>, path: &str) -> FileType {
        let essence = content_type.unwrap_or("").split(';').next().unwrap_or("").trim();
        let found =
            TYPES.iter().position(|it| it.names.iter().any(|name| name.eq_ignore_ascii_case(essence)));
        let found = found.map_or(UNKNOWN, |place| FileType(place as u8));
        match (found, media) {
            (HTML | XHTML, Some(Media::Html)) => found,
            (_, Some(Media::Html)) => HTML,
            (UNKNOWN | TEXT, _) if extension(path).is_some_and(|it| it.eq_ignore_ascii_case("css")) => CSS,
            (UNKNOWN, Some(Media::Text)) => TEXT,
            _ => found,
        }
    }

    fn definition(self) -> &'static Definition {
        &TYPES[usize::from(self.0)]
    }

    /// How its links are converted.
    pub(super) fn conversion(self) -> Conversion {
        match self {
            HTML | XHTML => Conversion::Html,
            CSS => Conversion::Css,
            _ => Conversion::None,
        }
    }

    /// A name by which a browser recognises the type; `path` is the path of the URL, whose extension is used for content of
    /// unknown type.
    pub(super) fn name<'n>(self, name: &'n str, path: &str) -> Cow<'n, str> {
        let is_one_of = |list: &[&str]| {
            extension(name).is_some_and(|it| list.iter().any(|known| known.eq_ignore_ascii_case(it)))
        };
        let Definition { extensions, also, .. } = self.definition();
        let is_markup =
            || [HTML, XHTML, XML, SVG].iter().any(|markup| is_one_of(markup.definition().extensions));
        let missing = match self {
            // Text is text under any name, unless a browser would run scripts in it.
            TEXT if extension(name).is_some() && !is_markup() => None,
            UNKNOWN => extension(path).filter(|it| !is_one_of(&[it])),
            _ if is_one_of(extensions) || is_one_of(also) => None,
            _ => extensions.first().copied(),
        };
        match missing {
            None => Cow::Borrowed(name),
            Some(extension) => Cow::Owned(format!("{name}.{extension}")),
        }
    }
}

/// The extension of a file name or path: up to eight letters and digits after the last dot.
pub(super) fn extension(name: &str) -> Option<&str> {
    let (stem, extension) = name.rsplit_once('.')?;
    let is_plain =
        (1..=8).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_plain && !stem.is_empty()).then_some(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_of_the_type_is_appended_where_the_name_has_another_one() {
        for (name, content_type, expected) in [
            ("intro", "text/html; charset=utf-8", "intro.html"),
            ("intro.HTM", "TEXT/HTML", "intro.HTM"),
            ("page.php", "text/html", "page.php.html"),
            ("page.xhtml", "text/html", "page.xhtml.html"),
            ("page.html", "application/xhtml+xml", "page.html.xhtml"),
            ("style.css@v=3", "text/css", "style.css@v=3.css"),
            ("style", "text/plain", "style.txt"),
            ("Makefile.am", "text/plain", "Makefile.am"),
            ("source.html", "text/plain", "source.html.txt"),
            ("x.svg", "text/plain", "x.svg.txt"),
            ("x.xhtml.SVG", "text/plain", "x.xhtml.SVG.txt"),
            ("x.xml", "text/plain; charset=utf-8", "x.xml.txt"),
            ("x.json", "text/plain", "x.json"),
            ("x.svg", "image/svg+xml", "x.svg"),
            ("photo.jpg", "image/webp", "photo.jpg"),
            ("photo", "image/webp", "photo.webp"),
            ("image.php", "image/png", "image.php.png"),
            ("font.woff", "application/octet-stream", "font.woff"),
            ("app.js", "application/javascript", "app.js"),
            ("script.php", "text/javascript", "script.php.js"),
            ("data", "application/x-unheard-of", "data"),
            ("v1.0 release notes", "text/html", "v1.0 release notes.html"),
        ] {
            let file_type = FileType::new(Some(content_type), None, "/");
            assert_eq!(file_type.name(name, name), expected, "{content_type}");
        }
        let unknown = FileType::new(None, None, "/a.bin");
        assert_eq!(unknown.name("a.bin@x=1", "/a.bin"), "a.bin@x=1.bin");
    }

    #[test]
    fn content_that_the_crawl_took_for_html_is_html_and_stylesheets_may_have_no_type() {
        let of = |content_type, media, path| FileType::new(content_type, media, path).conversion();
        assert_eq!(of(None, Some(Media::Html), "/x"), Conversion::Html);
        assert_eq!(of(Some("application/xhtml+xml"), Some(Media::Html), "/x"), Conversion::Html);
        assert_eq!(of(Some("text/plain"), Some(Media::Text), "/x.CSS"), Conversion::Css);
        assert_eq!(of(None, None, "/x.css"), Conversion::Css);
        assert_eq!(of(Some("text/css"), Some(Media::Text), "/style.php"), Conversion::Css);
        assert_eq!(of(Some("image/png"), None, "/x.css"), Conversion::None);
        assert_eq!(FileType::new(None, Some(Media::Text), "/x"), TEXT);
    }
}
