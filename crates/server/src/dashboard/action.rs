//! Actions that pages offer: forms with buttons, and the same as commands.

use super::api::Call;
use super::html::form_token;
use super::text::Text;
use super::visit::Visit;
use maud::{Markup, html};

/// An action that a page offers.
pub(super) struct Action<'a> {
    /// Its name in the page's form.
    pub(super) name: &'static str,
    pub(super) text: Text,
    /// The text of its button, if it is another.
    pub(super) button: Option<Text>,
    /// A warning, if it cannot be undone.
    pub(super) warning: Option<Text>,
    /// More fields.
    pub(super) fields: Markup,
    /// Other buttons of the form, before its own.
    pub(super) others: Markup,
    /// The same for a program.
    pub(super) call: Option<Call>,
    /// The same on the command line.
    pub(super) command: Vec<&'a str>,
}

impl Action<'_> {
    pub(super) fn new(name: &'static str, text: Text) -> Self {
        Self {
            name,
            text,
            button: None,
            warning: None,
            fields: html! {},
            others: html! {},
            call: None,
            command: Vec::new(),
        }
    }

    /// The form, closed until it is needed if it asks for more than a click.
    pub(super) fn show(&self, visit: &Visit, to: &str, hidden: &[(&str, &str)]) -> Markup {
        let form = html! {
            form method="post" action=(to) {
                (form_token(visit))
                input type="hidden" name="do" value=(self.name);
                @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
                (self.fields)
                @if let Some(warning) = self.warning { p.warning { (visit.say(warning)) } }
                div.row { (self.others) button type="submit" class=(if self.warning.is_some() { "danger" } else { self.name }) { (visit.say(self.button.unwrap_or(self.text))) } }
            }
        };
        html! {
            @if self.is_bare() { (form) } @else {
                details.action open[visit.refused(self.name).is_some()] {
                    summary { (visit.say(self.text)) "…" }
                    div {
                        (form)
                        @if self.call.is_some() {
                            details.copy {
                                summary { (visit.say(if self.fields.0.is_empty() { Text::AsCommand } else { Text::AsExample })) }
                                (self.commands(visit))
                            }
                        }
                    }
                }
            }
        }
    }

    /// Whether one click does it.
    fn is_bare(&self) -> bool {
        self.warning.is_none() && self.fields.0.is_empty()
    }

    fn commands(&self, visit: &Visit) -> Markup {
        html! {
            @if let Some(call) = &self.call { pre { (call.curl(&visit.origin, visit.asks_for_tokens)) } }
            @if !self.command.is_empty() { pre { (visit.command(&self.command)) } }
        }
    }
}

/// A row of actions. The commands of those that need one click follow them all together.
pub(super) fn actions(visit: &Visit, to: &str, hidden: &[(&str, &str)], actions: &[Action<'_>]) -> Markup {
    let bare: Vec<&Action<'_>> = actions.iter().filter(|action| action.is_bare()).collect();
    html! {
        div.actions {
            @for action in actions { (action.show(visit, to, hidden)) }
            @if !bare.is_empty() {
                details.copy {
                    summary { (visit.say(Text::AsCommand)) }
                    @for action in bare { p { (visit.say(action.text)) } (action.commands(visit)) }
                }
            }
        }
    }
}
