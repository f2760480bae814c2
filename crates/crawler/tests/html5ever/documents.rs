//! Documents on which the scanner is compared with html5ever.

/// Pieces that start, end or break every state of the tokenizer.
#[rustfmt::skip]
pub const PIECES: &[&str] = &[
    "<", ">", "/", "=", "\"", "'", "!", "-", "?", "&", ";", " ", "\t", "\n", "\r", "\r\n", "\x0C", "\0", "x",
    "é", "`", "#", "</", "<!", "<!-", "<!--", "-->", "--!>", "--!", "<!-->", "<!--->", "<!---->", "<!--!>",
    "->", "--", "<!doctype html>", "<!DOCTYPE a \">", "<?", "<?xml a='>'?>", "<![CDATA[", "]]>", "]]", "</>",
    "</ >", "</3>", "<3>", "<a", "<a ", "<A ", "</a>", "<a href=1>", "<a HREF = 'two'>",
    "<a href=\"three\" href=four>", "<a href>", "<a href=>", "<a href=/>", "<a/href=five>",
    "<a x=1/href=six>", "<a\nhref\n=\nseven\n>", "<a ='href'href=8>", "<a \"href=9>", "<a <a href=10>",
    "<a href='x'href=y>", "<a hre\0f=z>", "<ab href=no>", "<a\0 href=no>", "<a href=a\0b\rc>",
    "<a href=\"&amp;&lt\">", "href", "href=", " href=q", " href='q", " href=\"q", "<area href=x>",
    "<base href=b>", "<base>", "<base target=x href=c>", "<frame src=f>", "<iframe src=i>", "</iframe>",
    "<iframe/>", "<meta http-equiv=refresh content='0;url=m'>", "<meta content='1;n' HTTP-EQUIV=ReFresh>",
    "<meta http-equiv=&#114;efresh content=2;&#117;rl=o>", "<meta charset=x>", "<script>", "<script ",
    "</script>", "</script ", "</script/", "</SCRIPT x='>'>", "</scriptx>", "<scriptx>", "<script",
    "</script", "<style>", "</style>", "<title>", "</title>", "</title", "</titl", "<title/>", "<style/>",
    "<script/>", "<textarea>", "</textarea>", "</textarea\n>", "<xmp>", "</xmp>", "<noembed>", "</noembed>",
    "<noframes>", "</noframes>", "<template>", "</template>", "<template/>", "<TEMPLATE x>", "<svg/>",
    "<math/>", "</svg>", "<noscript>", "</noscript>", "<plaintext>", "<plaintext/>",
    "<xplaintext>", "<p>", "</p>", "<br/>", "<blockquote x='>'>", "<h1 class=\"a>b\">", "<p a'b>",
    "<p a=b'c>", "<p a=\"b\"c>", "<p//>", "<p / >", "<p/x>", "<p =>", "<p ==>", "<p a==\">", "&amp", "&amp;",
    "&#x26;", "&#38", "&#0;", "&#x80;", "&#xD800;", "&#x110000;", "&#99999999999;", "&#;", "&#x;", "&not",
    "&notit;", "&notin;", "&copy=", "&copyx", "&copy", "&unknown;", "&lt", "&AMP", "&ngE;", "&#13;",
    "&#x0D;\n", "<a href='&", "<a href=&", "<a href=\"?a=1&copy=2&lt=3&amp;b&quot;\">",
];

/// A document of SVG, MathML, templates and raw text elements, determined by these bytes. HTML elements are nested
/// properly. The end tags of other elements are sometimes missing, or where they do not belong.
pub fn nested_document(bytes: &[u8]) -> String {
    let mut writer = Writer { bytes: bytes.iter(), page: String::new(), elements: 0, may_omit_root: true };
    while writer.element(0) {}
    writer.page
}

/// The maximum number of elements of a document, all of which may be open. The scanner tracks no more than 64.
const MAX_ELEMENTS: usize = 60;

struct Writer<'b> {
    bytes: std::slice::Iter<'b, u8>,
    page: String,
    elements: usize,
    /// Whether the end tag of an `svg` or `math` can be missing: it is in an HTML element that ends it.
    may_omit_root: bool,
}

/// Elements of SVG, MathML and HTML whose content is markup in SVG and MathML.
pub const FOREIGN: &[&str] =
    &["svg", "math", "g", "title", "desc", "foreignObject", "mi", "mtext", "mglyph", "script", "style"];

/// Start tags that have an end tag of another spelling, or attributes.
const ANNOTATIONS: &[&str] = &[
    "<annotation-xml>",
    "<ANNOTATION-XML encoding=text/HTML>",
    "<annotation-xml encoding='application/xhtml+xml'>",
];

/// HTML elements that end SVG and MathML.
pub const HTML: &[&str] = &["div", "span", "ul", "center"];

const RAW: &[&str] = &["title", "textarea", "script", "style", "xmp", "iframe", "noembed", "noframes"];

const SINGLE: &[&str] = &[
    "t",
    "<br>",
    "<p>x</p>",
    "<svg/>",
    "<math/>",
    "<g/>",
    "<title/>",
    "<script/>",
    "<style/>",
    "<template/>",
    "</svg>",
    "</math>",
    "</template>",
    "<font></font>",
    "<font color=red></font>",
    "<!-- <svg> -->",
    "<![CDATA[<a href=cdata>",
    "]]>",
];

impl Writer<'_> {
    fn choose<'c>(&mut self, from: &[&'c str]) -> &'c str {
        from[usize::from(self.bytes.next().copied().unwrap_or(0)) % from.len()]
    }

    /// Writes an element. Returns false at the end of the document.
    fn element(&mut self, depth: usize) -> bool {
        if self.elements == MAX_ELEMENTS {
            return false;
        }
        let Some(&byte) = self.bytes.next() else { return false };
        self.elements += 1;
        let link = self.elements;
        match byte % 16 {
            0..=2 => self.page.push_str(&format!("<a href={link}></a>")),
            3 => self.page.push_str(&format!("<base href={link}>")),
            4 => self.page.push_str(&format!("<area href={link}>")),
            5 => self.page.push_str(&format!("<meta http-equiv=refresh content=0;{link}>")),
            6 => {
                let name = self.choose(RAW);
                self.page.push_str(&format!("<{name} src={link}>r<a href={link}></a>"));
                self.page.push_str(&format!("</{name}>"));
            }
            7 | 8 => {
                let text = self.choose(SINGLE);
                self.page.push_str(text);
            }
            9 | 10 => {
                let name = self.choose(HTML);
                self.page.push_str(&format!("<{name}>"));
                let around = std::mem::replace(&mut self.may_omit_root, true);
                self.children(depth);
                self.may_omit_root = around;
                self.page.push_str(&format!("</{name}>"));
            }
            11 => {
                self.page.push_str("<template>");
                self.children(depth);
                self.page.push_str("</template>");
            }
            12 => {
                let start = self.choose(ANNOTATIONS);
                self.page.push_str(start);
                self.page.push_str("</annotation-xml>");
            }
            _ => {
                let name = self.choose(FOREIGN);
                self.page.push_str(&format!("<{name}>"));
                let around = std::mem::replace(&mut self.may_omit_root, false);
                self.children(depth);
                self.may_omit_root = around;
                if byte < 160 || ["svg", "math"].contains(&name) && !around {
                    self.page.push_str(&format!("</{name}>"));
                }
            }
        }
        true
    }

    fn children(&mut self, depth: usize) {
        let count = self.bytes.next().map_or(0, |byte| byte % 4);
        for _ in 0..count {
            if depth < 12 {
                self.element(depth + 1);
            }
        }
    }
}
