//! Parses the service's JSON response. The response is untrusted: invalid entries are ignored.

use std::collections::HashMap;

use serde_json::Value;

use super::{MAX_RANK, Rank};

/// The ranks in a response, by domain in lower case. Invalid entries are left out. `Err` is the reason why
/// the response as a whole is invalid.
pub fn ranks(body: &[u8]) -> Result<HashMap<String, Rank>, &'static str> {
    let response: Value = serde_json::from_slice(body).map_err(|_| "the response is not JSON")?;
    let entries = response.get("response").and_then(Value::as_array);
    let entries = entries.ok_or("the response has no list named \"response\"")?;
    Ok(entries.iter().filter_map(entry).collect())
}

fn entry(entry: &Value) -> Option<(String, Rank)> {
    let domain = entry.get("domain")?.as_str()?.to_ascii_lowercase();
    // A domain that the service does not know has the lowest rank.
    let is_unknown = entry.get("status_code").and_then(number) == Some(404.0);
    let rank = if is_unknown { 0 } else { rank(entry)? };
    Some((domain, rank))
}

fn rank(entry: &Value) -> Option<Rank> {
    let field = |name: &str| entry.get(name).and_then(number);
    let rank = field("page_rank_integer").or_else(|| field("page_rank_decimal"))?.round();
    (0.0..=f64::from(MAX_RANK)).contains(&rank).then_some(rank as Rank)
}

/// A number, or a string that contains one.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn only(entry: &str) -> Option<Rank> {
        let body = format!(r#"{{"status_code":200,"response":[{entry}],"last_updated":"x"}}"#);
        ranks(body.as_bytes()).unwrap().get("a.test").copied()
    }

    #[test]
    fn rank_is_a_number_or_a_string_or_missing() {
        let entry = |rest: &str| only(&format!(r#"{{"status_code":200,"domain":"a.test",{rest}}}"#));
        assert_eq!(entry(r#""page_rank_integer":6,"page_rank_decimal":5.8,"rank":"12""#), Some(6));
        assert_eq!(entry(r#""page_rank_integer":"6","page_rank_decimal":null"#), Some(6));
        assert_eq!(entry(r#""page_rank_integer":null,"page_rank_decimal":"5.8""#), Some(6));
        assert_eq!(entry(r#""page_rank_integer":0"#), Some(0));
        assert_eq!(entry(r#""page_rank_integer":10"#), Some(10));
        assert_eq!(entry(r#""rank":"12""#), None);
    }

    #[test]
    fn unknown_domain_has_rank_0() {
        let unknown = r#"{"status_code":404,"error":"Domain not found","page_rank_integer":0,"rank":null,"domain":"a.test"}"#;
        assert_eq!(only(unknown), Some(0));
        assert_eq!(only(r#"{"status_code":"404","page_rank_integer":"","domain":"a.test"}"#), Some(0));
    }

    #[test]
    fn invalid_entry_is_left_out_and_the_others_are_used() {
        for rank in ["11", "-1", "1e300", "\"NaN\"", "\"inf\"", "\"best\"", "[6]", "{}", "true", "null"] {
            let bad = format!(r#"{{"status_code":200,"domain":"a.test","page_rank_integer":{rank}}}"#);
            let good = r#"{"status_code":200,"domain":"B.test","page_rank_integer":3}"#;
            let body = format!(r#"{{"response":[7,null,[],{{"domain":5}},{bad},{good}]}}"#);
            let ranks = ranks(body.as_bytes()).unwrap();
            assert_eq!(ranks, HashMap::from([("b.test".to_owned(), 3)]), "{rank}");
        }
    }

    #[test]
    fn invalid_response_is_an_error() {
        let nested = "[".repeat(200_000);
        for body in
            ["", "garbage", "<html>", "{\"response\":", "[]", "{}", "{\"response\":{}}", "null", &nested]
        {
            assert!(ranks(body.as_bytes()).is_err(), "{}", &body[..body.len().min(20)]);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>, text in "[\\[\\]{}:,\"0-9a-z]{0,60}") {
            let _ = ranks(&bytes);
            let _ = ranks(format!(r#"{{"response":[{{"domain":"a","page_rank_integer":{text}}}]}}"#).as_bytes());
        }
    }
}
