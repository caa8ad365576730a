//! Attributes of HTML within Markdown.

/// Names that links can lead to.
pub(super) fn anchors(html: &str) -> impl Iterator<Item = String> {
    values(html, "id").chain(values(html, "name"))
}

/// Addresses of links and images.
pub(super) fn addresses(html: &str) -> impl Iterator<Item = String> {
    ["href", "src", "srcset"].into_iter().flat_map(|name| values(html, name))
}

/// Values of the attribute `name`.
fn values(html: &str, name: &str) -> impl Iterator<Item = String> + use<> {
    let begin = format!(" {name}=\"");
    let values: Vec<_> =
        html.split(&begin).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect();
    values.into_iter()
}
