//! Writes CSV: fields are quoted where RFC 4180 requires it. Lines end with a line feed only, which CSV readers, `cut` and
//! `sort` accept.

/// Appends a line with these fields.
pub(super) fn push_line<'f>(lines: &mut Vec<u8>, fields: impl IntoIterator<Item = &'f str>) {
    for (index, field) in fields.into_iter().enumerate() {
        if index > 0 {
            lines.push(b',');
        }
        push_field(lines, field);
    }
    lines.push(b'\n');
}

/// Appends one field.
pub(super) fn push_field(line: &mut Vec<u8>, field: &str) {
    if !field.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        return line.extend_from_slice(field.as_bytes());
    }
    line.push(b'"');
    line.extend_from_slice(field.replace('"', "\"\"").as_bytes());
    line.push(b'"');
}
