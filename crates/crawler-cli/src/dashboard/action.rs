//! The actions of the page: `{"action": "set-delay", "value": "2s"}`. Values are written as on the command line.

use crawler::internal::live_settings::ControlAction;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::values;

/// An action as the page sends it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    action: String,
    #[serde(default)]
    value: Option<Value>,
}

/// The response to an action.
#[derive(Serialize)]
pub struct ActionResponse {
    /// Whether it was done.
    pub done: bool,
    /// What was done, or why not.
    pub message: String,
}

/// Parses an action, and checks its value.
pub fn parse(body: &[u8]) -> Result<ControlAction, String> {
    let Request { action, value } =
        serde_json::from_slice(body).map_err(|error| format!("cannot read the action: {error}"))?;
    let value = match &value {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.trim().to_owned()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(_) => return Err(format!("cannot {action}: the value must be a text or a number")),
    };
    let needed = |what: &str| match value.as_deref() {
        None | Some("") => Err(format!("cannot {action}: the value is missing; give {what}")),
        Some(value) => Ok(value),
    };
    let invalid = |error: String| format!("cannot {action}: the value {error}");
    let action = match action.as_str() {
        "pause" => ControlAction::Pause,
        "unpause" => ControlAction::Unpause,
        "stop" => ControlAction::Stop,
        "set-delay" => {
            ControlAction::SetDelay(values::duration(needed("a time such as 2s")?).map_err(invalid)?)
        }
        "set-max-pages" => ControlAction::SetMaxPages(values::count(needed("a number")?).map_err(invalid)?),
        "set-max-bytes" => {
            ControlAction::SetMaxBytes(values::large_size(needed("a size such as 100MB")?).map_err(invalid)?)
        }
        "set-max-time" => ControlAction::SetMaxTime(match needed("a time such as 2h, or unlimited")? {
            "unlimited" => None,
            time => Some(values::long_time(time).map_err(invalid)?),
        }),
        "block-host" => ControlAction::BlockHost(needed("a host name")?.to_owned()),
        "block-pattern" => ControlAction::BlockPattern(needed("a regular expression")?.to_owned()),
        "add-seed" => ControlAction::AddSeed(values::seed_text(needed("a URL")?)),
        _ => return Err("cannot read the action: it is not known to this version of the crawler".into()),
    };
    action.check()?;
    Ok(action)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn values_are_those_of_the_command_line() {
        let of = |text: &str| parse(text.as_bytes());
        assert_eq!(of(r#"{"action":"pause"}"#), Ok(ControlAction::Pause));
        let delay = ControlAction::SetDelay(Duration::from_millis(1_500));
        assert_eq!(of(r#"{"action":"set-delay","value":"1.5s"}"#), Ok(delay.clone()));
        assert_eq!(of(r#"{"action":"set-delay","value":1.5}"#), Ok(delay));
        assert_eq!(
            of(r#"{"action":"set-max-bytes","value":"2GB"}"#),
            Ok(ControlAction::SetMaxBytes(2_000_000_000))
        );
        assert_eq!(
            of(r#"{"action":"set-max-time","value":"unlimited"}"#),
            Ok(ControlAction::SetMaxTime(None))
        );
        let seed = ControlAction::AddSeed("https://example.org/".into());
        assert_eq!(of(r#"{"action":"add-seed","value":" example.org "}"#), Ok(seed));
    }

    #[test]
    fn bad_actions_are_explained() {
        for (body, words) in [
            ("", "cannot read the action: "),
            ("[]", "cannot read the action: "),
            (r#"{"action":"explode"}"#, "not known"),
            (r#"{"action":"set-delay"}"#, "cannot set-delay: the value is missing; give a time"),
            (r#"{"action":"set-delay","value":"soon"}"#, "cannot set-delay: the value must be a time"),
            (r#"{"action":"set-max-pages","value":-3}"#, "must not be negative"),
            (r#"{"action":"set-max-pages","value":[1]}"#, "must be a text or a number"),
            (
                r#"{"action":"block-pattern","value":"("}"#,
                "cannot block the pattern: it is not a regular expression",
            ),
            (r#"{"action":"block-pattern","value":"a*"}"#, "it matches every URL"),
            (r#"{"action":"block-host","value":"*"}"#, "it is not a host name or address; give one like"),
            (r#"{"action":"set-delay","value":"1000h"}"#, "at most 24h"),
            (r#"{"action":"set-delay","value":-1}"#, "cannot set-delay: the value"),
            (r#"{"action":"set-max-pages","value":0}"#, "cannot"),
            (r#"{"action":"add-seed","value":"ftp://a.test/"}"#, "the seed"),
            (r#"{"action":"pause","extra":1}"#, "unknown field"),
        ] {
            let error = parse(body.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{body}: {error}");
        }
    }
}
