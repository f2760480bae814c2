//! Tests of encoding detection.

use std::time::Duration;

use encoding_rs::{BIG5, EUC_JP, GBK, SHIFT_JIS, WINDOWS_1251};

use super::*;
use crate::cpu_time::cpu_time;

fn encoding(content_type: Option<&str>, body: &[u8]) -> &'static Encoding {
    Charset::new(content_type, body).encoding()
}

#[test]
fn byte_order_mark_wins_over_header_wins_over_meta() {
    let meta = b"<meta charset=windows-1251>".as_slice();
    assert_eq!(encoding(None, meta), WINDOWS_1251);
    assert_eq!(encoding(Some("text/html; charset=gbk"), meta), GBK);
    let marked = [b"\xEF\xBB\xBF".as_slice(), meta].concat();
    assert_eq!(encoding(Some("text/html; charset=gbk"), &marked), UTF_8);
}

#[test]
fn header_charset_is_parsed_leniently() {
    for header in [
        "text/html;charset=shift_jis",
        "text/html; Charset=\"Shift_JIS\"",
        "text/html; boundary=x; CHARSET = SJIS ",
        "; charset=ms_kanji",
    ] {
        assert_eq!(encoding(Some(header), b"\xE9"), SHIFT_JIS, "{header}");
    }
}

#[test]
fn unknown_charset_in_the_header_is_ignored() {
    for header in ["text/html", "text/html; charset", "text/html; charset=", "text/html; charset=klingon", ""]
    {
        assert_eq!(encoding(Some(header), b"<meta charset=big5>"), BIG5, "{header}");
    }
}

#[test]
fn meta_charset_is_parsed_leniently() {
    for meta in [
        "<META CharSet='euc-jp'>",
        "<!-- <meta charset=gbk> --><meta charset=euc-jp>",
        "<meta charset=klingon><meta charset=euc-jp><meta charset=gbk>",
        "<meta http-equiv=Content-Type content='text/html; charset=euc-jp'>",
        "<meta content='charset; CHARSET = \"euc-jp\"; x' http-equiv=\"CONTENT-TYPE\">",
        "<meta content='text/html; charset=gbk'><meta charset=euc-jp>",
        "<script>'<meta charset=gbk>'</script><meta charset=euc-jp>",
        "<!-- charset> <meta charset=gbk> --><meta charset=euc-jp>",
        "<title>charset> <meta charset=gbk></title><meta charset=euc-jp>",
        "<meta name=x content='charset>'><meta charset=euc-jp>",
        "<meta charset=euc-jp title='x>'><meta charset=gbk>",
    ] {
        assert_eq!(encoding(None, meta.as_bytes()), EUC_JP, "{meta}");
    }
}

#[test]
fn meta_counts_anywhere_in_the_page() {
    let meta = "<meta charset=windows-1251>";
    for before in [0, PRESCAN_BYTES - meta.len(), PRESCAN_BYTES - 5, PRESCAN_BYTES, 100_000] {
        let page = format!("{}{meta}<meta charset=gbk>", " ".repeat(before));
        assert_eq!(encoding(None, page.as_bytes()), WINDOWS_1251, "after {before} bytes");
        assert_eq!(encoding(Some("text/html; charset=big5"), page.as_bytes()), BIG5);
    }
    let late = format!("<title>x</title>{}<meta charset=iso-2022-jp>日本", " ".repeat(2_000));
    let body = ISO_2022_JP.encode(&late).0;
    assert_eq!(Charset::new(None, &body).transcoded(), Some(late));
}

#[test]
fn meta_that_contradicts_the_bytes_is_corrected() {
    assert_eq!(encoding(None, b"<meta charset=utf-16>"), UTF_8);
    assert_eq!(encoding(None, b"<meta charset=x-user-defined>"), WINDOWS_1252);
    assert_eq!(encoding(None, "<meta charset=iso-2022-kr>Größe".as_bytes()), UTF_8);
}

#[test]
fn encoding_is_detected_without_a_declaration() {
    let russian =
        "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.";
    assert_eq!(encoding(None, russian.as_bytes()), UTF_8);
    assert_eq!(encoding(None, &WINDOWS_1251.encode(russian).0), WINDOWS_1251);
    assert_eq!(encoding(None, &SHIFT_JIS.encode("吾輩は猫である。名前はまだ無い。").0), SHIFT_JIS);
}

#[test]
fn only_encodings_incompatible_with_ascii_are_transcoded() {
    fn transcoded(content_type: Option<&str>, body: &[u8]) -> Option<String> {
        Charset::new(content_type, body).transcoded()
    }
    assert_eq!(transcoded(None, b"\xFF\xFE<\0\xE9\0"), Some("<é".to_owned()));
    assert_eq!(transcoded(None, b"\xFE\xFF\0<\0\xE9"), Some("<é".to_owned()));
    assert_eq!(transcoded(Some("text/html; charset=utf-16be"), b"\0<\0\xE9"), Some("<é".to_owned()));
    let japanese = "<meta charset=iso-2022-jp>日本";
    assert_eq!(transcoded(None, &ISO_2022_JP.encode(japanese).0), Some(japanese.to_owned()));
    assert_eq!(transcoded(Some("text/html; charset=utf-8"), b"\xE9"), None);
    assert_eq!(transcoded(None, b"<p>2022"), None);
}

#[test]
fn unmappable_characters_in_a_query_become_references() {
    assert_eq!(*encode_query(WINDOWS_1251, "я=日я"), *b"\xFF=%26%2326085%3B\xFF");
    assert_eq!(*encode_query(UTF_16LE, "é"), *"é".as_bytes());
    let long = "日".repeat(10_000);
    assert_eq!(encode_query(WINDOWS_1252, &long).len(), 10_000 * "%26%2326085%3B".len());
}

#[test]
fn page_that_is_truncated_within_a_character_is_utf_8() {
    let page = "<title>Заголовок</title>Текст страницы без указания кодировки".as_bytes();
    for cut in 1..40 {
        assert_eq!(Charset::new(None, &page[..page.len() - cut]).encoding(), encoding_rs::UTF_8, "{cut}");
    }
}

#[test]
fn encoding_of_a_large_page_is_detected_from_a_part_of_it() {
    let russian = "<p>Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива.</p>";
    let japanese = "<p>吾輩は猫である。名前はまだ無い。どこで生れたか頓と見当がつかぬ。</p>";
    let ascii = "<p class=x>plain text</p>".repeat(400_000);
    for (encoding_of_page, text) in [(WINDOWS_1251, russian), (SHIFT_JIS, japanese), (EUC_JP, japanese)] {
        let text = encoding_of_page.encode(text).0.into_owned();
        let late = [ascii.as_bytes(), &text.repeat(20)].concat();
        let everywhere = text.repeat((20 << 20) / text.len());
        for page in [late, everywhere] {
            let mut found = UTF_8;
            let taken = cpu_time(|| found = encoding(None, &page));
            assert_eq!(found, encoding_of_page);
            assert!(taken < Duration::from_secs(2), "{taken:?} for {} MB", page.len() >> 20);
        }
    }
}
