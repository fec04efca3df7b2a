//! `duetime config`.

use super::exit::{CONFIG, Failure, Result};
use super::output::{self, note};
use super::variables;
use crate::config::{Mistake, Settings, example};
use crate::serve;
use clap::Command;
use duetime_core::error::system_words;
use serde_json::{Value, json};
use std::io::Write;

/// Check and show the configuration of `duetime serve`.
///
/// Options come from a file, environment variables and flags. Flags override variables, which override the file. `duetime
/// config example` prints a file with all keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime config example > duetime.toml
  duetime config check --config duetime.toml
  duetime config show")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List everything that is wrong with the configuration; exit with 78 if the file is wrong
    #[command(mut_arg("test", |arg| arg.hide(true)))]
    Check(Box<Used>),
    /// Show the value of every option and where it came from; passwords are masked
    #[command(mut_arg("test", |arg| arg.hide(true)))]
    Show(Box<Used>),
    /// Print a duetime.toml with all keys as comments
    Example,
}

#[derive(Debug, clap::Args)]
struct Used {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Options of `duetime serve`")]
    serve: serve::Args,
}

impl Args {
    /// Whether it lists what is wrong.
    pub(crate) fn is_check(&self) -> bool {
        matches!(self.action, Action::Check(_))
    }
}

/// Runs it.
pub(crate) fn run(args: Args, settings: &Settings, command: &Command) -> Result {
    match args.action {
        Action::Check(used) => check(&used, settings, command),
        Action::Show(used) => show(&used, settings),
        Action::Example => {
            let serve = command.find_subcommand("serve").expect("the command line has `serve`");
            Ok(std::io::stdout().lock().write_all(example(serve).as_bytes())?)
        }
    }
}

/// All mistakes in the options that would keep a server from starting.
pub(crate) fn wrong(settings: &Settings, args: &serve::Args) -> Vec<Mistake> {
    // If a value could not be read, its default replaces it, which causes no further mistakes.
    let refused = serve::refusals(args).into_iter();
    let refused = refused.map(|error| Mistake { key: None, from: None, text: system_words(&error.to_string()) });
    settings.mistakes.iter().cloned().chain(refused).collect()
}

fn check(used: &Used, settings: &Settings, command: &Command) -> Result {
    let mut wrong = wrong(settings, &used.serve);
    let mistyped = variables::mistakes(command).into_iter();
    wrong.extend(mistyped.map(|text| Mistake { key: None, from: None, text }));
    let is_right = wrong.is_empty();
    if used.json {
        output::json(
            &json!({ "file": settings.file, "ok": is_right, "mistakes": wrong, "put_aside": settings.aside }),
        )?;
    } else {
        settings.aside.iter().for_each(|what| note!("note: {what}"));
        wrong.iter().for_each(|mistake| note!("duetime: {}", mistake.text));
        if is_right {
            let file = settings.file.as_ref().map_or_else(|| "no file".to_owned(), |path| path.display().to_string());
            output::say(format_args!("the configuration is valid ({file})"))?;
        }
    }
    if is_right { Ok(()) } else { Err(Failure::quiet(CONFIG)) }
}

fn show(used: &Used, settings: &Settings) -> Result {
    if used.json {
        let all: Vec<_> = settings.all.iter().map(document).collect();
        return output::json(
            &json!({ "file": settings.file, "settings": all, "mistakes": settings.mistakes, "put_aside": settings.aside }),
        );
    }
    let mut table = output::table(&["KEY", "VALUE", "FROM"]);
    for setting in &settings.all {
        let value = if setting.values.is_empty() { "-".to_owned() } else { setting.values.join(", ") };
        table.add_row([setting.key.clone(), output::safe(&value), setting.from.to_string()]);
    }
    output::print(&table)?;
    settings.aside.iter().for_each(|what| note!("note: {what}"));
    settings.mistakes.iter().for_each(|mistake| note!("duetime: {}", mistake.text));
    Ok(())
}

fn document(setting: &crate::config::Setting) -> Value {
    let value = match &setting.values[..] {
        values if setting.takes_many => json!(values),
        [] => Value::Null,
        [value] if setting.is_switch => Value::Bool(value == "true"),
        [value, ..] => json!(value),
    };
    json!({
        "key": setting.key, "flag": setting.flag, "variable": setting.variable,
        "value": value, "from": setting.from,
    })
}
