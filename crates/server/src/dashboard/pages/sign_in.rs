//! Signing in with a token, and out.

use crate::access::{Caller, Scope};
use crate::dashboard::form::Form;
use crate::dashboard::html::form_token;
use crate::dashboard::paths::{local, see_other};
use crate::dashboard::session;
use crate::dashboard::state::Dashboard;
use crate::dashboard::text::Text;
use crate::dashboard::visit::{Guest, Visit};
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::response::Response;
use duetime_core::api;
use maud::html;

pub(in crate::dashboard) async fn page(Guest(visit): Guest) -> Response {
    let to = local(visit.asked("to").unwrap_or("/")).to_owned();
    if matches!(visit.api.caller, Caller::Nobody) { ask(visit, &to) } else { see_other(&to) }
}

fn ask(visit: Visit, to: &str) -> Response {
    let content = html! {
        p { (visit.say(Text::SignInHint)) }
        pre { "duetime token create NAME --allow read --tokens FILE" }
        p { (visit.say(Text::SignInRights)) }
        form.stack method="post" action="/sign-in" {
            (form_token(&visit))
            input type="hidden" name="to" value=(to);
            label {
                span { (visit.say(Text::Token)) }
                input type="password" name="token" required autocomplete="current-password" autofocus;
            }
            button type="submit" { (visit.say(Text::SignIn)) }
        }
    };
    let title = visit.say(Text::SignIn).to_owned();
    visit.answer(Ok((title, content)))
}

pub(in crate::dashboard) async fn act(
    State(dashboard): State<Dashboard>,
    Guest(mut visit): Guest,
    form: Form,
) -> Response {
    let to = local(form.get("to").unwrap_or("/"));
    let (app, token) = (&dashboard.app, form.get("token").unwrap_or_default());
    let found = app.tokens().and_then(|tokens| Caller::of_token(tokens, token, &app.clock));
    let why = match found {
        Some(caller) if caller.has(Scope::Read) => {
            let mut response = see_other(to);
            response.headers_mut().append(SET_COOKIE, session::set(app, Some(token)));
            return response;
        }
        Some(_) => Text::TokenCannotRead,
        None => Text::TokenUnknown,
    };
    visit.problem = Some(api::Problem::new("unauthorized", 401, visit.say(Text::NotSignedIn), visit.say(why)).into());
    ask(visit, to)
}

pub(in crate::dashboard) async fn leave(State(dashboard): State<Dashboard>, _: Form) -> Response {
    let mut response = see_other("/sign-in");
    response.headers_mut().append(SET_COOKIE, session::set(&dashboard.app, None));
    response
}
