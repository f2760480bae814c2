//! Reads response bodies: decodes pages, discards the rest, within the limits on received and decoded bytes.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Body as _;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::byte_counter::ByteCounter;
use super::decode::{DecodeError, Decoder};
use super::read_allowance::ResponseBody;
use super::{Download, headers, http_failure};
use crate::config::Oversize;
use crate::exchange::Truncation;
use crate::media::{self, AcceptedTypes, Declared, Media, SNIFF_BYTES};
use crate::outcome::Outcome;

/// The body of a response without a page is read up to this size, so that its connection can be reused.
const MAX_DRAIN_BYTES: usize = 64 * 1024;

/// How much of what follows an encoded stream is read, so that the connection can be reused.
const MAX_TRAILING_BYTES: usize = 4 * 1024;

/// How long to read what is not needed; a new connection costs less than waiting longer.
const MAX_DRAIN_TIME: Duration = Duration::from_millis(250);

/// How much of the body of a response without a page is read, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct DrainLimits {
    pub(super) bytes: usize,
    pub(super) time: Duration,
}

impl Default for DrainLimits {
    fn default() -> DrainLimits {
        DrainLimits { bytes: MAX_DRAIN_BYTES, time: MAX_DRAIN_TIME }
    }
}

/// How many empty HTTP/2 frames a body may have. Each costs time, and adds nothing to the bytes that are limited.
const MAX_EMPTY_FRAMES: usize = 1_000;

/// How much of a response body to read, and of which media types. Limits apply to the received bytes and to the decoded
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPolicy {
    /// A body of HTML, text or another type that the crawl accepts.
    Page {
        /// The maximum size of a complete page.
        limit: usize,
        /// What happens to a larger page.
        oversize: Oversize,
        /// The maximum size of content of another type. Larger content is dropped.
        file_limit: usize,
        /// Whether images, fonts and scripts, which are no pages, are read to their end for an archive. It may have the same files as
        /// requisites of pages, and programs that replay it show the newer of the two.
        archives_files: bool,
    },
    /// A body of any type, which is dropped if it is larger than this.
    File(usize),
    /// Any body, truncated after this many bytes.
    Prefix(usize),
    /// Any body, which the budget [gets](super::ByteBudget::receive) while it is read, up to this many bytes.
    Stream(usize),
    /// No body: the request is a HEAD request.
    Head,
    /// Any body, which is discarded.
    Discard,
}

impl BodyPolicy {
    /// A page of at most this size.
    pub fn page(limit: usize) -> BodyPolicy {
        BodyPolicy::Page { limit, oversize: Oversize::Drop, file_limit: limit, archives_files: false }
    }

    fn limit(self) -> usize {
        match self {
            BodyPolicy::Page { limit, .. }
            | BodyPolicy::File(limit)
            | BodyPolicy::Prefix(limit)
            | BodyPolicy::Stream(limit) => limit,
            BodyPolicy::Head | BodyPolicy::Discard => MAX_DRAIN_BYTES,
        }
    }

    /// The method of the request.
    pub(super) fn method(self) -> Method {
        if self == BodyPolicy::Head { Method::HEAD } else { Method::GET }
    }

    /// Whether the body of a successful response is discarded.
    pub(super) fn discards(self) -> bool {
        matches!(self, BodyPolicy::Head | BodyPolicy::Discard)
    }

    fn truncates(self) -> bool {
        !matches!(self, BodyPolicy::Page { oversize: Oversize::Drop, .. } | BodyPolicy::File(_))
    }

    /// Whether content with this Content-Type header is read for an archive, though it is no page.
    fn archives(self, content_type: Option<&str>) -> bool {
        matches!(self, BodyPolicy::Page { archives_files: true, .. })
            && media::is_shown_in_pages(content_type)
    }

    /// The policy for a body with this Content-Type header, as far as it depends on it.
    fn for_content(self, content_type: Option<&str>, accepted: &AcceptedTypes) -> BodyPolicy {
        match self {
            BodyPolicy::Page { file_limit, .. } if accepted.accept(content_type) => {
                match media::declared(content_type) {
                    Declared::Page(_) => self,
                    Declared::Unknown | Declared::Other => BodyPolicy::File(file_limit),
                }
            }
            policy => policy,
        }
    }
}

/// Reads and decodes a body into `download`. Also returns whether it was read to its end, so that the connection can be
/// reused.
pub(super) async fn read(
    download: &mut Download,
    mut body: ResponseBody,
    encoding: Option<&str>,
    (policy, accepted): (BodyPolicy, &AcceptedTypes),
    drain_time: Duration,
    counter: &ByteCounter<'_>,
) -> (Result<(), Outcome>, bool) {
    let policy = policy.for_content(download.content_type.as_deref(), accepted);
    match read_page(download, &mut body, encoding, policy, counter).await {
        Ok(is_complete) => (Ok(()), is_complete),
        Err(not_a_page @ Outcome::UnsupportedMedia { .. }) => {
            let is_complete = match counter.records_exchange() {
                true if policy.archives(download.content_type.as_deref()) => {
                    drain_file(body, policy, drain_time, counter).await
                }
                // What is not archived is not read.
                true => false,
                false => drain(body, policy, DrainLimits::default(), counter).await,
            };
            (Err(not_a_page), is_complete)
        }
        Err(failure) => (Err(failure), false),
    }
}

/// The same, up to the point where the body turns out to be no page.
async fn read_page(
    download: &mut Download,
    body: &mut ResponseBody,
    encoding: Option<&str>,
    policy: BodyPolicy,
    counter: &ByteCounter<'_>,
) -> Result<bool, Outcome> {
    let page = PageType::new(download.content_type.as_deref(), policy)?;
    let limit = policy.limit();
    let expected = body.size_hint().exact().unwrap_or(0);
    if encoding.is_none() && expected > limit as u64 && !policy.truncates() {
        return Err(Outcome::TooLarge { limit });
    }
    let decoder = Decoder::new(encoding, limit, expected as usize).map_err(unsupported_encoding)?;
    let mut decoder = decoder.pausing();
    let (mut media, mut empty_frames) = (None, 0);
    while !decoder.has_ended()
        && let Some(data) = next_data(body, &mut empty_frames, counter).await?
    {
        if decode(&mut decoder, data, policy, counter).await? {
            download.body = decoder.into_partial();
            download.media = page.media(&download.body)?;
            download.truncated = true;
            return Ok(false);
        }
        if media.is_none() && decoder.decoded().len() >= SNIFF_BYTES {
            media = Some(page.media(decoder.decoded())?);
        }
    }
    let may_have_more = decoder.has_ended();
    download.body = decoder.finish().map_err(|error| match error {
        DecodeError::TooLarge => Outcome::TooLarge { limit },
        DecodeError::Corrupt(cause) => decode_failure(&cause),
    })?;
    download.media = match media {
        Some(media) => media,
        None => page.media(&download.body)?,
    };
    Ok(!may_have_more || drain_trailing(body, limit, counter).await)
}

/// Decodes a body that was stored as it was received, as [`read`] does while it receives one. Of one that `is_incomplete`, what there is
/// is the body.
pub(crate) fn read_stored(
    download: &mut Download,
    body: Bytes,
    encoding: Option<&str>,
    (policy, accepted): (BodyPolicy, &AcceptedTypes),
    is_incomplete: bool,
) -> Result<(), Outcome> {
    let policy = policy.for_content(download.content_type.as_deref(), accepted);
    let page = PageType::new(download.content_type.as_deref(), policy)?;
    let limit = policy.limit();
    let mut decoder = Decoder::new(encoding, limit, body.len()).map_err(unsupported_encoding)?;
    let is_too_long = body.len() > limit;
    let is_too_large = match decoder.feed(body) {
        Ok(()) => is_too_long && !decoder.has_ended(),
        Err(DecodeError::TooLarge) => true,
        Err(DecodeError::Corrupt(cause)) => return Err(decode_failure(&cause)),
    };
    if is_too_large && !policy.truncates() {
        return Err(Outcome::TooLarge { limit });
    }
    download.truncated = is_too_large || is_incomplete;
    download.body = match download.truncated {
        true => decoder.into_partial(),
        false => decoder.finish().map_err(|error| match error {
            DecodeError::TooLarge => Outcome::TooLarge { limit },
            DecodeError::Corrupt(cause) => decode_failure(&cause),
        })?,
    };
    download.media = page.media(&download.body)?;
    Ok(())
}

/// Decodes received bytes, each step when all before it is granted. Returns whether the body is larger than the policy allows, and
/// is to be truncated.
async fn decode(
    decoder: &mut Decoder<'_>,
    data: Bytes,
    policy: BodyPolicy,
    counter: &ByteCounter<'_>,
) -> Result<bool, Outcome> {
    let limit = policy.limit();
    let is_too_long = counter.add_received(&data, limit);
    let mut fed = decoder.feed(data);
    loop {
        counter.set_decoded(decoder.decoded().len());
        let is_too_large = match fed {
            Ok(()) => is_too_long && !decoder.is_paused() && !decoder.has_ended(),
            Err(DecodeError::TooLarge) => true,
            Err(DecodeError::Corrupt(cause)) => return Err(decode_failure(&cause)),
        };
        if is_too_large && !policy.truncates() {
            return Err(Outcome::TooLarge { limit });
        }
        counter.all_granted().await?;
        if is_too_large || !decoder.is_paused() {
            return Ok(is_too_large);
        }
        fed = decoder.resume();
    }
}

/// Hands a body to the budget while it is read. Returns whether it was read to its end.
pub(super) async fn stream(
    mut body: ResponseBody,
    encoding: Option<&str>,
    limit: usize,
    counter: &ByteCounter<'_>,
) -> Result<bool, Outcome> {
    let sink = |bytes: &[u8]| counter.receive(bytes);
    let mut decoder =
        Decoder::new(encoding, limit, 0).map_err(unsupported_encoding)?.into_sink(&sink).pausing();
    let mut empty_frames = 0;
    while !decoder.has_ended()
        && let Some(data) = next_data(&mut body, &mut empty_frames, counter).await?
    {
        let is_too_long = counter.add_received(&data, limit);
        let mut fed = decoder.feed(data);
        loop {
            counter.all_granted().await?;
            match fed {
                Ok(()) if decoder.is_paused() => fed = decoder.resume(),
                Ok(()) if is_too_long => return Ok(false),
                Ok(()) => break,
                Err(DecodeError::TooLarge) => {
                    // The budget wants no more.
                    counter.body_truncated(Truncation::Unspecified);
                    return Ok(false);
                }
                Err(DecodeError::Corrupt(cause)) => return Err(decode_failure(&cause)),
            }
            // To read a sitemap takes longer than to receive it, and other requests of the worker wait meanwhile.
            yield_now().await;
        }
        yield_now().await;
    }
    if decoder.has_ended() {
        drain_trailing(&mut body, limit, counter).await;
    }
    match decoder.finish() {
        Ok(_) => Ok(true),
        Err(DecodeError::TooLarge) => Ok(false),
        Err(DecodeError::Corrupt(cause)) => Err(decode_failure(&cause)),
    }
}

fn unsupported_encoding(unknown: String) -> Outcome {
    let cause = format!("unsupported content encoding {:?}", headers::excerpt(&unknown));
    Outcome::InvalidResponse { cause }
}

fn decode_failure(cause: &str) -> Outcome {
    Outcome::InvalidResponse { cause: format!("cannot decode the body: {cause}") }
}

/// Reads the body of a response without a page, which is archived or discarded. Returns whether it was read to its end.
pub(super) async fn drain(
    mut body: ResponseBody,
    policy: BodyPolicy,
    DrainLimits { bytes, time }: DrainLimits,
    counter: &ByteCounter<'_>,
) -> bool {
    let bytes = policy.limit().min(bytes);
    let is_kept = counter.records_exchange() && !policy.discards();
    if body.size_hint().lower() > bytes as u64 && !is_kept {
        return false;
    }
    let limit = if is_kept { bytes } else { policy.limit() };
    drain_up_to(&mut body, DrainLimits { bytes, time }, limit, counter).await
}

/// Reads a file that is no page, for an archive. Returns whether it was read to its end.
async fn drain_file(
    mut body: ResponseBody,
    policy: BodyPolicy,
    time: Duration,
    counter: &ByteCounter<'_>,
) -> bool {
    let BodyPolicy::Page { file_limit, .. } = policy else { return false };
    body.size_hint().lower() <= file_limit as u64
        && drain_up_to(&mut body, DrainLimits { bytes: file_limit, time }, file_limit, counter).await
}

/// Reads what follows an encoded stream. Returns whether the body has ended.
async fn drain_trailing(body: &mut ResponseBody, limit: usize, counter: &ByteCounter<'_>) -> bool {
    let limits = DrainLimits { bytes: MAX_TRAILING_BYTES, ..DrainLimits::default() };
    drain_up_to(body, limits, limit, counter).await
}

/// Reads at most `max`, while the request has received at most `limit`. Returns whether the body has ended.
async fn drain_up_to(
    body: &mut ResponseBody,
    max: DrainLimits,
    limit: usize,
    counter: &ByteCounter<'_>,
) -> bool {
    let drained = async {
        let (mut drained, mut empty_frames) = (0, 0);
        while let Some(data) = next_data(body, &mut empty_frames, counter).await? {
            drained += data.len();
            if counter.add_received(&data, limit) || drained > max.bytes {
                return Ok(Some(Truncation::Length));
            }
            counter.all_granted().await?;
        }
        Ok::<_, Outcome>(None)
    };
    let truncated = match timeout(max.time, drained).await {
        Ok(Ok(truncated)) => truncated,
        Ok(Err(failure)) => Some(Truncation::of_failure(&failure)),
        Err(_) => Some(Truncation::Time),
    };
    truncated.inspect(|why| counter.body_truncated(*why)).is_none()
}

/// The next bytes of a body; `None` at its end.
async fn next_data(
    body: &mut ResponseBody,
    empty_frames: &mut usize,
    counter: &ByteCounter<'_>,
) -> Result<Option<Bytes>, Outcome> {
    while let Some(frame) = body.frame().await {
        // Trailers are ignored.
        let Ok(data) = frame.map_err(|error| http_failure(&error, false))?.into_data() else { continue };
        if !data.is_empty() {
            return Ok(Some(data));
        }
        *empty_frames += 1;
        if *empty_frames > MAX_EMPTY_FRAMES {
            return Err(Outcome::InvalidResponse { cause: "the body has too many empty frames".into() });
        }
    }
    counter.body_ended();
    Ok(None)
}

/// Decides whether a body is a page.
struct PageType<'t> {
    /// `None` if any body will do.
    declared: Option<Declared>,
    content_type: Option<&'t str>,
    /// Whether content that is not a page is kept, too.
    keeps_other: bool,
}

impl<'t> PageType<'t> {
    fn new(content_type: Option<&'t str>, policy: BodyPolicy) -> Result<PageType<'t>, Outcome> {
        let declared = match policy {
            BodyPolicy::Page { .. } | BodyPolicy::File(_) => Some(media::declared(content_type)),
            _ => None,
        };
        let keeps_other = matches!(policy, BodyPolicy::File(_));
        if declared == Some(Declared::Other) && !keeps_other {
            let what = headers::excerpt(content_type.unwrap_or(""));
            return Err(Outcome::UnsupportedMedia { what });
        }
        Ok(PageType { declared, content_type, keeps_other })
    }

    /// The media type of a body that starts with these bytes, or why it is not a page.
    fn media(&self, start: &[u8]) -> Result<Media, Outcome> {
        let Some(declared) = self.declared else { return Ok(Media::Text) };
        let content_type = self.content_type;
        let media = media::sniff(declared, content_type, start);
        media.or(self.keeps_other.then_some(Media::Other)).ok_or_else(|| Outcome::UnsupportedMedia {
            what: match headers::excerpt(content_type.unwrap_or("")).as_str() {
                "" => "binary".into(),
                declared_type => format!("binary content declared as {declared_type}"),
            },
        })
    }
}
