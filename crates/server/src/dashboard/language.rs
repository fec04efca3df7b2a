//! The languages of the dashboard.

use super::figures::number;
use super::session::cookie;
use super::text::Text;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT_LANGUAGE, HeaderValue};
use duetime_core::api::Reason;

/// The cookie that holds the reader's choice.
const COOKIE: &str = "duetime-language";

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Chinese,
}

impl Language {
    pub(super) const ALL: [Self; 2] = [Self::English, Self::Chinese];

    /// Its HTML code.
    pub(super) fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }

    /// Its own name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "中文",
        }
    }

    /// The language with this tag, or with its first part.
    pub(super) fn of_tag(tag: &str) -> Option<Self> {
        let first = tag.split('-').next().unwrap_or_default();
        Self::ALL.into_iter().find(|language| language.tag()[..2].eq_ignore_ascii_case(first))
    }

    /// The reader's choice, or else the browser's preference.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let chosen = cookie(headers, COOKIE).and_then(Self::of_tag);
        let accepted = || headers.get_all(ACCEPT_LANGUAGE).iter().filter_map(|header| header.to_str().ok());
        let preferred = || preferred(accepted());
        chosen.or_else(preferred).unwrap_or(Self::English)
    }

    /// The header that keeps the choice for a year.
    pub(super) fn cookie(self) -> HeaderValue {
        let text = format!("{COOKIE}={}; Path=/; SameSite=Lax; Max-Age=31536000", self.tag());
        HeaderValue::try_from(text).expect("tags are letters")
    }

    /// Why a job does not run. If the reason has a `since`, that instant ends the sentence.
    pub(crate) fn reason(self, reason: &Reason) -> String {
        let numbers = [reason.count, reason.limit].map(|value| value.map_or_else(String::new, number));
        self.fill(Text::of_reason(reason), &[&numbers[0], &numbers[1]])
    }

    /// A text in this language.
    pub(super) fn say(self, text: Text) -> &'static str {
        let [english, chinese] = text.in_all();
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }

    /// A span in its two largest units.
    pub(super) fn span(self, ms: u64) -> String {
        const UNITS: [(u64, [&str; 2]); 5] = [
            (86_400_000, ["d", "天"]),
            (3_600_000, ["h", "小时"]),
            (60_000, ["m", "分钟"]),
            (1_000, ["s", "秒"]),
            (1, ["ms", "毫秒"]),
        ];
        let first = UNITS.iter().position(|&(unit, _)| ms >= unit).unwrap_or(UNITS.len() - 1);
        let said = |count: u64, [english, chinese]: [&str; 2]| match self {
            Self::English => format!("{count}{english}"),
            Self::Chinese => format!("{count} {chinese}"),
        };
        let (unit, names) = UNITS[first];
        let mut text = said(ms / unit, names);
        // Milliseconds say nothing beside seconds.
        if let Some(&(smaller, names)) = UNITS.get(first + 1).filter(|_| first < 3)
            && ms % unit >= smaller
        {
            text.push(' ');
            text.push_str(&said(ms % unit / smaller, names));
        }
        text
    }

    /// The same with each `{}` filled.
    pub(super) fn fill(self, text: Text, values: &[&str]) -> String {
        let mut parts = self.say(text).split("{}");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for (part, value) in parts.zip(values) {
            filled.push_str(value);
            filled.push_str(part);
        }
        filled
    }
}

/// The language with the highest quality in the headers `Accept-Language`, such as `zh-CN, en;q=0.5`; of equal ones the first.
/// `*` stands for the languages that no other range names. Qualities are from 0 to 1; a range with another one does not count.
fn preferred<'h>(headers: impl Iterator<Item = &'h str>) -> Option<Language> {
    let range = |range: &'h str| {
        let mut parts = range.split(';').map(str::trim);
        let tag = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let quality = weight.map_or(Ok(1.0), str::parse::<f32>).ok()?;
        (0.0..=1.0).contains(&quality).then_some((tag, quality))
    };
    let ranges: Vec<_> = headers.flat_map(|header| header.split(',')).filter_map(range).collect();
    let is_named = |language| ranges.iter().any(|&(tag, _)| Language::of_tag(tag) == Some(language));
    let mut best = (0.0, None);
    for &(tag, quality) in &ranges {
        let rest = || (tag == "*").then(|| Language::ALL.into_iter().find(|&language| !is_named(language))).flatten();
        let language = Language::of_tag(tag).or_else(rest);
        if language.is_some() && quality > best.0 {
            best = (quality, language);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&'static str, &'static str)]) -> Language {
        let header = |&(name, value): &(&'static str, &'static str)| (name.parse().unwrap(), value.parse().unwrap());
        Language::of(&pairs.iter().map(header).collect())
    }

    #[test]
    fn a_choice_goes_before_what_the_browser_prefers() {
        assert_eq!(of(&[]), Language::English);
        assert_eq!(of(&[("accept-language", "de, zh-TW;q=0.9, en;q=0.8")]), Language::Chinese);
        assert_eq!(of(&[("accept-language", "zh"), ("cookie", "a=b; duetime-language=en")]), Language::English);
        assert_eq!(of(&[("cookie", "duetime-language=<script>")]), Language::English);
    }

    #[test]
    fn the_highest_quality_decides() {
        for (header, language) in [
            ("zh;q=0.1,en", Language::English),
            ("en;q=0.5, zh-CN", Language::Chinese),
            ("zh, en", Language::Chinese),
            ("en, zh", Language::English),
            ("zh;q=0", Language::English),
            ("zh;q=0, en;q=0.001", Language::English),
            ("fr, *;q=0.5, zh;q=0.1", Language::English),
            ("*", Language::English),
            ("zh, *", Language::Chinese),
            ("*, zh;q=0.5", Language::English),
            ("en;q=0, *", Language::Chinese),
            ("*, en;q=0.2", Language::Chinese),
            ("en;q=0, zh;q=0, *", Language::English),
            ("*;q=0", Language::English),
            ("zh-Hant;q=0.7, en;q=0.6", Language::Chinese),
            ("ZH-hans-CN, en", Language::Chinese),
            ("zhx, en;q=0.1", Language::English),
            ("en-GB;q=0.9, zh-CN;q=0.8", Language::English),
            ("fr, zh;q=0.1", Language::Chinese),
            ("zh;q=much", Language::English),
            ("zh;q=2, en;q=0.1", Language::English),
            ("en;Q=0.5, zh", Language::Chinese),
            ("zh; q=0.9, en ;q=0.8", Language::Chinese),
            ("", Language::English),
        ] {
            assert_eq!(of(&[("accept-language", header)]), language, "{header}");
        }
        assert_eq!(of(&[("accept-language", "fr"), ("accept-language", "zh")]), Language::Chinese, "two headers");
    }

    #[test]
    fn spans_are_short() {
        for (ms, text) in [(0, "0ms"), (1_500, "1s"), (61_000, "1m 1s"), (3_600_000, "1h"), (90_000_000, "1d 1h")] {
            assert_eq!(Language::English.span(ms), text);
        }
        assert_eq!(Language::Chinese.span(90_000_000), "1 天 1 小时");
    }

    #[test]
    fn a_text_is_filled_in_order() {
        assert_eq!(Language::English.fill(Text::PageOfQueues, &["3"]), "The first 3 queues by name");
        for text in Text::ALL {
            let [english, chinese] = text.in_all();
            assert_eq!(english.matches("{}").count(), chinese.matches("{}").count(), "{english}");
        }
    }
}
