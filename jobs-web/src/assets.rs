//! The style sheet and the script. They are compiled in. Their names contain a hash of their content, so browsers may
//! keep them.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A file of the dashboard.
struct Asset {
    stem: &'static str,
    extension: &'static str,
    mime: &'static str,
    content: &'static str,
}

const CSS: Asset = Asset {
    stem: "dashboard",
    extension: "css",
    mime: "text/css; charset=utf-8",
    content: include_str!("../assets/dashboard.css"),
};
const JS: Asset = Asset {
    stem: "dashboard",
    extension: "js",
    mime: "text/javascript; charset=utf-8",
    content: include_str!("../assets/dashboard.js"),
};
const ICON: Asset =
    Asset { stem: "icon", extension: "svg", mime: "image/svg+xml", content: include_str!("../assets/icon.svg") };

/// FNV-1a. It names versions of our own files, and is no protection against attacks.
const fn hash(content: &str) -> u64 {
    let bytes = content.as_bytes();
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

impl Asset {
    fn name(&self) -> String {
        format!("{}-{:016x}.{}", self.stem, hash(self.content), self.extension)
    }
}

/// The file names of this version's assets: style sheet, script and icon.
pub(crate) fn names() -> [String; 3] {
    [CSS.name(), JS.name(), ICON.name()]
}

/// `GET /assets/{name}`.
pub(crate) async fn asset(name: Result<Path<String>, PathRejection>) -> Response {
    // A name that is no UTF-8 is none of ours.
    let name = name.map(|Path(name)| name).unwrap_or_default();
    match [CSS, JS, ICON].iter().find(|asset| asset.name() == name) {
        // Private: only those who may read the dashboard get it.
        Some(asset) => (
            [(header::CONTENT_TYPE, asset.mime), (header::CACHE_CONTROL, "private, max-age=31536000, immutable")],
            asset.content,
        )
            .into_response(),
        None => (StatusCode::NOT_FOUND, "there is no such asset in this version of the dashboard\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_follows_from_the_content() {
        assert_ne!(hash("a"), hash("b"));
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        let [css, js, icon] = names();
        assert!(css.ends_with(".css") && js.ends_with(".js") && icon.ends_with(".svg"));
    }
}
