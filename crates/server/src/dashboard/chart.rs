//! Charts: SVG that the server draws, each with a table that says the same.

use super::figures::{instant_text, number};
use super::html::instant;
use super::text::Text;
use super::visit::Visit;
use duetime_core::Millis;
use duetime_core::api::Timestamp;
use maud::{Markup, html};

/// The size of a drawing, in its own units.
#[derive(Clone, Copy)]
pub(super) struct Size {
    class: &'static str,
    width: u64,
    height: u64,
    /// Room for the largest value above the bars, and as much for the labels below.
    margin: u64,
}

/// For two drawings side by side.
pub(super) const HALF: Size = Size { class: "chart", width: 480, height: 110, margin: 21 };
/// For one as wide as the page.
pub(super) const WHOLE: Size = Size { class: "chart whole", width: 960, height: 130, margin: 30 };

/// A bar.
pub(super) struct Bar {
    /// Its first instant.
    pub(super) at: Millis,
    /// Whether it is for a day, or longer.
    pub(super) is_day: bool,
    pub(super) value: u64,
    /// The value in words, if it is no plain number.
    pub(super) said: Option<String>,
    /// The list of its jobs.
    pub(super) href: Option<String>,
}

impl Bar {
    /// When it begins, in UTC; a script shows it in the reader's zone.
    fn label(&self) -> String {
        let exact = Timestamp(self.at).to_string();
        exact.get(if self.is_day { 5..10 } else { 11..16 }).unwrap_or_default().to_owned()
    }

    fn form(&self) -> &'static str {
        if self.is_day { "day" } else { "minute" }
    }

    fn said(&self) -> String {
        self.said.clone().unwrap_or_else(|| number(self.value))
    }
}

/// Bars from left to right. One of `every` has its label below.
pub(super) fn bars(visit: &Visit, size: Size, title: Text, heads: [Text; 2], bars: &[Bar], every: usize) -> Markup {
    let Size { class, width, height: tallest, margin } = size;
    let most = bars.iter().map(|bar| bar.value).max().unwrap_or(0);
    let largest = bars.iter().max_by_key(|bar| bar.value).map(Bar::said).unwrap_or_default();
    let slot = width as f64 / bars.len().max(1) as f64;
    let drawn = |place: usize, bar: &Bar| {
        let height = if most == 0 { 0.0 } else { bar.value as f64 / most as f64 * tallest as f64 };
        // A bar above zero is always visible, however small it is next to the largest.
        let height = if bar.value > 0 { height.max(2.0) } else { 0.0 };
        let (x, y) = (place as f64 * slot, (margin + tallest) as f64 - height);
        html! {
            rect.over x=(round(x)) y=(margin) width=(round(slot)) height=(tallest) { title { (instant_text(bar.at)) ": " (bar.said()) } }
            rect.bar x=(round(x + slot * 0.12)) y=(round(y)) width=(round(slot * 0.76)) height=(round(height)) rx="1.5" {}
        }
    };
    html! {
        figure {
            figcaption { (visit.say(title)) }
            svg class=(class) viewBox={ "0 0 " (width) " " (tallest + 2 * margin) } role="group" aria-label=(visit.say(title)) {
                line x1="0" x2=(width) y1=(margin) y2=(margin) {}
                line x1="0" x2=(width) y1=(margin + tallest) y2=(margin + tallest) {}
                @if most > 0 { text x="0" y=(margin - 5) { (largest) } } @else {
                    text x=(width / 2) y=(margin + tallest / 2 + 5) text-anchor="middle" { (visit.say(Text::NoneYet)) }
                }
                @for (place, bar) in bars.iter().enumerate() {
                    @if let Some(href) = bar.href.as_ref().filter(|_| bar.value > 0) {
                        a href=(href) aria-label={ (instant_text(bar.at)) ": " (bar.said()) } { (drawn(place, bar)) }
                    } @else {
                        g aria-hidden="true" { (drawn(place, bar)) }
                    }
                    // Not the first and the last ones, whose labels would stick out.
                    @if place % every == every.saturating_sub(1) / 2 {
                        text.odd[place / every % 2 == 1] x=(round((place as f64 + 0.5) * slot)) y=(tallest + 2 * margin - 5) text-anchor="middle" data-at=(Timestamp(bar.at)) data-form=(bar.form()) { (bar.label()) }
                    }
                }
            }
            details.copy {
                summary { (visit.say(Text::AsTable)) }
                div.scroll tabindex="0" {
                    table {
                        thead { tr { @for head in heads { th scope="col" { (visit.say(head)) } } } }
                        tbody {
                            @for bar in bars {
                                tr {
                                    th scope="row" {
                                        @if let Some(href) = &bar.href { a href=(href) { (instant(visit, bar.at)) } } @else { (instant(visit, bar.at)) }
                                    }
                                    td.number { (bar.said()) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
