//! All options of `serve` with their values, and where each came from.

use super::file::{self, Entry};
use super::keys::{find, flag, key, nearest, options};
use super::option_values::{Mistake, OptionValues, Origin};
use super::value::{check as check_value, from_file, is_secret, is_switch, takes_many, with_value};
use super::{FILE, Surroundings, check};
use crate::toml_words;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Id};
use duetime_core::Redacted;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// An option with the value in use.
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) flag: String,
    pub(crate) variable: Option<String>,
    /// Empty if there is no value; addresses are redacted.
    pub(crate) values: Vec<String>,
    pub(crate) is_switch: bool,
    pub(crate) takes_many: bool,
    pub(crate) from: Origin,
}

/// The values in effect, their sources, and the mistakes.
#[derive(Default)]
pub(crate) struct Settings {
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// All options, in the order of the help.
    pub(crate) all: Vec<Setting>,
    pub(crate) mistakes: Vec<Mistake>,
    /// OptionValues values that have no effect, because a value in effect excludes them.
    pub(crate) aside: Vec<String>,
    given: BTreeMap<Id, OptionValues>,
}

impl Settings {
    /// Reads the file and the environment, in addition to the command line.
    pub(super) fn read(serve: &Command, line: &ArgMatches, around: &Surroundings<'_>) -> Self {
        let mut settings = Self::default();
        settings.read_file(serve, line, around);
        settings.read_environment(serve, around);
        for arg in options(serve) {
            let id = arg.get_id();
            if line.value_source(id.as_str()) == Some(ValueSource::CommandLine) {
                let flag = Origin::Flag { name: flag(arg) };
                settings.give(arg, values(arg, line), flag);
            }
        }
        let (mistakes, aside) = check::check(serve, &mut settings.given);
        settings.mistakes.extend(mistakes);
        settings.aside = aside;
        settings
    }

    fn give(&mut self, arg: &Arg, values: Vec<OsString>, from: Origin) {
        self.given.insert(arg.get_id().clone(), OptionValues::new(values, from, is_switch(arg)));
    }

    fn read_file(&mut self, serve: &Command, line: &ArgMatches, around: &Surroundings<'_>) {
        let flag = line.get_raw(FILE).and_then(|mut values| values.next()).map(PathBuf::from);
        let variable = serve.get_arguments().find(|arg| arg.get_id() == FILE).and_then(Arg::get_env);
        let named = flag.or_else(|| variable.and_then(|name| around.set(name)).map(PathBuf::from));
        let Some(path) = named.or_else(|| file::find(around.files)) else { return };
        self.file = Some(path.clone());
        let path = Arc::new(path);
        let at = |line| Origin::File { path: path.clone(), line };
        let text = match file::read(&path) {
            Ok(text) => text,
            Err(text) => return self.mistakes.push(Mistake { key: None, from: Some(at(1)), text }),
        };
        let (entries, wrong) = file::entries(&text);
        for (line, message) in wrong {
            let text = format!("{}: {}", at(line), toml_words::said(&message));
            self.mistakes.push(Mistake { key: None, from: Some(at(line)), text });
        }
        for entry in entries {
            let from = at(entry.line);
            self.read_entry(serve, &entry, from);
        }
    }

    fn read_entry(&mut self, serve: &Command, entry: &Entry<'_>, from: Origin) {
        let path: Vec<&str> = entry.path.iter().map(String::as_str).collect();
        let name = path.join(".");
        let key = Some(name.clone());
        let Some(arg) = find(serve, &path) else {
            let meant = nearest(serve, &path.join("_")).map(|key| format!("did you mean `{key}`?"));
            let meant = meant.unwrap_or_else(|| "`duetime config example` prints all keys".to_owned());
            let text = format!("unknown key `{name}` in {from}; {meant}");
            return self.mistakes.push(Mistake { key, from: Some(from), text });
        };
        if let Some(before) = self.given.get(arg.get_id()) {
            let text = format!("`{name}` in {from}: it is given twice; the other place is {}", before.from);
            return self.mistakes.push(Mistake { key, from: Some(from), text });
        }
        match from_file(arg, &entry.value) {
            Ok(values) if values.is_empty() => {}
            Ok(values) => self.give(arg, values, from),
            Err(why) => {
                let text = format!("`{name}` in {from}: {why}");
                self.mistakes.push(Mistake { key, from: Some(from), text });
            }
        }
    }

    fn read_environment(&mut self, serve: &Command, around: &Surroundings<'_>) {
        for arg in options(serve) {
            let Some((name, value)) = arg.get_env().and_then(|name| Some((name, around.set(name)?))) else { continue };
            let from = Origin::Variable { name: name.to_string_lossy().into_owned() };
            // Several values are separated by commas, as after the flag.
            let checked = match arg.get_value_delimiter().and_then(|comma| Some(value.to_str()?.split(comma))) {
                Some(mut parts) => parts.try_for_each(|part| check_value(arg, part.as_ref())),
                None => check_value(arg, &value),
            };
            match checked {
                Ok(()) => self.give(arg, vec![value], from),
                Err(why) => {
                    let text = format!("{from}: {why}");
                    self.mistakes.push(Mistake { key: Some(key(arg)), from: Some(from), text });
                }
            }
        }
    }

    /// The values from the file and the environment, as flags.
    pub(super) fn flags(&self, serve: &Command) -> Vec<OsString> {
        let flags = options(serve).flat_map(|arg| {
            let given = self.given.get(arg.get_id()).filter(|given| !matches!(given.from, Origin::Flag { .. }));
            let on = given.filter(|given| given.is_on()).into_iter();
            on.flat_map(|given| &given.values).map(|value| with_value(arg, value))
        });
        flags.collect()
    }

    /// Notes the value that is used in the end.
    pub(super) fn finish(&mut self, serve: &Command, matches: &ArgMatches) {
        let shown = |arg: &Arg, value: &OsString| {
            let text = value.to_string_lossy();
            if is_secret(arg) { Redacted(&text).to_string() } else { text.into_owned() }
        };
        let setting = |arg: &Arg| Setting {
            key: key(arg),
            flag: flag(arg),
            variable: arg.get_env().map(|name| name.to_string_lossy().into_owned()),
            values: values(arg, matches).iter().map(|value| shown(arg, value)).collect(),
            is_switch: is_switch(arg),
            takes_many: takes_many(arg),
            from: self.given.get(arg.get_id()).map_or(Origin::Default, |given| given.from.clone()),
        };
        self.all = options(serve).map(setting).collect();
    }

    /// Whether something is wrong in a file.
    pub(crate) fn is_file_wrong(&self) -> bool {
        self.mistakes.iter().any(|mistake| matches!(mistake.from, Some(Origin::File { .. })))
    }
}

/// The values of an option as they were written.
fn values(arg: &Arg, matches: &ArgMatches) -> Vec<OsString> {
    let id = arg.get_id().as_str();
    if is_switch(arg) {
        return vec![matches.get_flag(id).to_string().into()];
    }
    matches.get_raw(id).map(|values| values.map(OsString::from).collect()).unwrap_or_default()
}
