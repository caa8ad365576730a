//! Headers that keep other sites out.

use axum::{
    http::{
        HeaderValue,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
            STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
    },
    response::Response,
};

/// Nothing loads from other hosts, no text of a page becomes a script or a style, and no page is in a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// How long a browser keeps to encryption. It is short, because it holds for all ports of this host.
const ENCRYPTED: &str = "max-age=604800";

/// Adds the headers to an answer.
pub(super) fn secure(mut answer: Response, is_encrypted: bool) -> Response {
    let headers = answer.headers_mut();
    let is_page = headers.get(CONTENT_TYPE).is_none_or(|kind| kind.as_bytes().starts_with(b"text/html"));
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (CACHE_CONTROL, if is_page { "no-store" } else { "private, max-age=600" }),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_encrypted {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(ENCRYPTED));
    }
    answer
}
