use super::check::needs;
use super::keys::{key, options};
use super::value::{check, is_switch, takes_many};
use super::*;
use crate::cli::command;
use duetime_core::Redacted;
use std::collections::HashMap;
use std::ffi::OsStr as Name;

/// A folder with a file, and variables.
struct Case {
    folder: tempfile::TempDir,
    variables: HashMap<String, String>,
}

impl Case {
    fn new(file: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("duetime.toml"), file).unwrap();
        Self { folder, variables: HashMap::new() }
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    fn parse(&self, flags: &[&str]) -> Result<Parsed, clap::Error> {
        let path = self.folder.path().join("duetime.toml");
        let variable = |name: &Name| self.variables.get(name.to_str().unwrap()).map(OsString::from);
        let around = Surroundings { variable: &variable, files: &["/nowhere/x.toml", path.to_str().unwrap()] };
        let line: Vec<_> = ["duetime", "serve"].iter().chain(flags).map(OsString::from).collect();
        parse(&command(), &line, &around)
    }

    fn settings(&self, flags: &[&str]) -> Settings {
        self.parse(flags).unwrap_or_else(|error| panic!("{error}")).settings.unwrap()
    }

    /// The mistakes, without the folder's path.
    fn wrong(&self, flags: &[&str]) -> Vec<String> {
        let folder = format!("{}/", self.folder.path().display());
        let texts = self.settings(flags).mistakes.into_iter().map(|mistake| mistake.text.replace(&folder, ""));
        texts.collect()
    }
}

fn serve() -> Command {
    let mut command = command();
    command.build();
    command.find_subcommand(SERVE).unwrap().clone()
}

/// Three values for the option, or fewer if it accepts fewer.
fn samples(arg: &Arg) -> [String; 3] {
    if is_switch(arg) {
        return ["true", "false", "true"].map(str::to_owned);
    }
    let words: Vec<String> = arg.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
    let any = [
        "127.0.0.1:1",
        "127.0.0.1:2",
        "127.0.0.1:3",
        "21",
        "22",
        "23",
        "1m",
        "2m",
        "3m",
        "1KiB",
        "2KiB",
        "3KiB",
        "21MiB",
        "22MiB",
        "23MiB",
        "commit",
        "none",
        "a",
        "b",
    ];
    let fits = |text: &String| check(arg, text.as_ref()).is_ok();
    let mut fit: Vec<_> = words.into_iter().chain(any.map(str::to_owned)).filter(fits).collect();
    assert!(fit.len() >= 2, "no values are known for --{}", arg.get_long().unwrap());
    if fit.len() == 2 {
        fit.push(fit[0].clone());
    }
    [fit[0].clone(), fit[1].clone(), fit[2].clone()]
}

fn line(arg: &Arg, value: &str) -> String {
    let is_bare = is_switch(arg) || super::value::is_number(arg);
    let text = if is_bare { value.to_owned() } else { format!("{value:?}") };
    let text = if takes_many(arg) { format!("[{text}]") } else { text };
    format!("# a comment\n{} = {text}\n", key(arg))
}

/// The value in effect, and its source.
fn used(settings: &Settings, name: &str) -> (String, Origin) {
    let setting = settings.all.iter().find(|setting| setting.key == name).unwrap();
    (setting.values.join(","), setting.from.clone())
}

#[test]
fn of_every_option_the_flag_counts_before_the_variable_before_the_file() {
    let serve = serve();
    let mut count = 0;
    for arg in options(&serve) {
        let (name, flag) = (key(arg), arg.get_long().unwrap());
        let variable = arg.get_env().unwrap_or_else(|| panic!("--{flag} has no variable")).to_str().unwrap();
        let [in_file, in_variable, by_flag] = samples(arg);
        let shown =
            |text: &str| if arg.is_hide_env_values_set() { Redacted(text).to_string() } else { text.to_owned() };
        let case = Case::new(&line(arg, &in_file));
        let (value, from) = used(&case.settings(&[]), &name);
        assert!(value == shown(&in_file) && matches!(from, Origin::File { line: 2, .. }), "{name}: {value} {from:?}");
        let case = case.set(variable, &in_variable);
        let (value, from) = used(&case.settings(&[]), &name);
        assert_eq!((value, from), (shown(&in_variable), Origin::Variable { name: variable.to_owned() }));
        let given = if is_switch(arg) { format!("--{flag}") } else { format!("--{flag}={by_flag}") };
        let (value, from) = used(&case.settings(&[&given]), &name);
        assert_eq!((value, from), (shown(&by_flag), Origin::Flag { name: format!("--{flag}") }));
        count += 1;
    }
    assert!(count > 15, "{count}");
}

#[test]
fn the_command_sees_what_counts() {
    let case = Case::new("[payload]\nmax = \"7KiB\"\n[webhook]\nallow_private = true\n").set("DUETIME_HORIZON", "2h");
    let parsed = case.parse(&["--settle", "broker"]).unwrap();
    let matches = chosen(&parsed.matches);
    assert!(matches.get_flag("webhook_allow_private"));
    assert_eq!(matches.get_raw("payload_max").unwrap().collect::<Vec<_>>(), ["7KiB"]);
    assert_eq!(matches.get_raw("horizon").unwrap().collect::<Vec<_>>(), ["2h"]);
}

#[test]
fn a_table_is_a_prefix() {
    let case =
        Case::new("[broker]\nurl = 'redis://h'\n[ledger]\nurl = 'mysql://h/d'\nconnections = 3\nmay_lose = true\n");
    let settings = case.settings(&[]);
    assert!(settings.mistakes.is_empty(), "{:?}", settings.mistakes);
    assert_eq!(used(&settings, "ledger").0, "mysql://h/d");
    assert_eq!(used(&settings, "ledger_connections").0, "3");
    assert_eq!(used(&settings, "ledger_may_lose").0, "true");
    assert!(matches!(used(&settings, "ledger_connections").1, Origin::File { line: 5, .. }));
}

#[test]
fn all_that_is_wrong_is_told_with_its_line() {
    let file = "liten = \"127.0.0.1:7300\"\nlisten = \"here\"\nallow_remote = \"yes\"\nledger_connections = \"many\"\n\
        store = 7\n[log]\nlevel = true\nfromat = \"json\"\n[nothing]\n[webhook]\nca = 1979-05-27\n";
    let wrong = Case::new(file).set("DUETIME_DURABILITY", "now").wrong(&[]);
    let expected = [
        "unknown key `liten` in duetime.toml, line 1; did you mean `listen`?",
        "`listen` in duetime.toml, line 2: expected an IP address and a port, such as 127.0.0.1:7300 or [::]:7300, got \"here\"",
        "`allow_remote` in duetime.toml, line 3: expected true or false, got a string",
        "`ledger_connections` in duetime.toml, line 4: expected a number, got a string",
        "`store` in duetime.toml, line 5: expected a string, got an integer",
        "`log.level` in duetime.toml, line 7: expected a string, got a boolean",
        "unknown key `log.fromat` in duetime.toml, line 8; did you mean `log_format`?",
        "unknown key `nothing` in duetime.toml, line 9; `duetime config example` prints all keys",
        "`webhook.ca` in duetime.toml, line 11: expected a string, got a datetime",
        "the variable DUETIME_DURABILITY: `durability` must be `commit`, `interval` or `none`, got \"now\"",
    ];
    assert_eq!(wrong, expected);
}

#[test]
fn a_file_that_is_no_toml_is_told_with_its_line() {
    let wrong = Case::new("listen = \"127.0.0.1:1\"\nstore = \nhorizon: 7\n").wrong(&[]);
    assert!(wrong.len() >= 2, "{wrong:?}");
    assert!(wrong[0].starts_with("duetime.toml, line 2: not valid TOML"), "{wrong:?}");
    assert!(wrong[1].starts_with("duetime.toml, line 3: not valid TOML"), "{wrong:?}");
    let wrong = Case::new("log_level = \"warn\"\n[log]\nlevel = \"info\"\n").wrong(&[]);
    assert_eq!(
        wrong,
        ["`log.level` in duetime.toml, line 3: it is given twice; the other place is duetime.toml, line 1"]
    );
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let case = Case::new("");
    let path = case.folder.path().join("other.toml");
    let wrong = case.wrong(&["--config", path.to_str().unwrap()]);
    assert!(wrong.len() == 1 && wrong[0].contains("cannot read other.toml"), "{wrong:?}");
    std::fs::write(&path, "horizon = \"3h\"").unwrap();
    let case = case.set("DUETIME_CONFIG", path.to_str().unwrap());
    assert_eq!(used(&case.settings(&[]), "horizon").0, "3h");
    assert_eq!(
        used(&case.settings(&["--config", case.folder.path().join("duetime.toml").to_str().unwrap()]), "horizon").0,
        "1h"
    );
}

#[test]
fn what_excludes_what_is_judged_by_precedence() {
    let file = "store = \"a.db\"\ndurability = \"none\"\n";
    let settings = Case::new(file).settings(&["--broker", "redis://h"]);
    assert!(settings.mistakes.is_empty() && settings.aside.len() == 2, "{:?}", settings.aside);
    assert!(settings.aside[0].contains("line 1) is overridden by the flag --broker"), "{:?}", settings.aside);
    assert_eq!(used(&settings, "store"), ("duetime.db".to_owned(), Origin::Default));
    // Options that need one that is put aside are put aside too.
    let file = "broker = \"redis://h\"\nledger = \"mysql://h/d\"\nledger_connections = 3\n";
    let settings = Case::new(file).set("DUETIME_STORE", "a.db").settings(&[]);
    assert!(settings.mistakes.is_empty() && settings.aside.len() == 3, "{:?} {:?}", settings.aside, settings.mistakes);
    assert_eq!(used(&settings, "ledger").0, "");
    // But nothing from a later source.
    let wrong = Case::new(file).set("DUETIME_STORE", "a.db").wrong(&["--ledger", "postgres://h/d"]);
    assert_eq!(wrong, ["the flag --ledger needs `broker`, which is overridden by the variable DUETIME_STORE"]);
}

#[test]
fn what_excludes_or_needs_what_in_one_place_is_refused() {
    let wrong = Case::new("store = \"a.db\"\nbroker = \"redis://h\"\n").wrong(&[]);
    let expected =
        "`broker` (duetime.toml, line 2) cannot be used with `store` (duetime.toml, line 1): remove one of them";
    assert_eq!(wrong, [expected]);
    let wrong = Case::new("").wrong(&["--store", "a", "--broker", "redis://h"]);
    assert_eq!(wrong, ["the flag --broker cannot be used with the flag --store: remove one of them"]);
    let wrong = Case::new("ledger_connections = 3\n").set("DUETIME_NO_MIGRATE", "false").wrong(&[]);
    assert_eq!(wrong, ["`ledger_connections` (duetime.toml, line 1) needs `broker` and `ledger`, which are not given"]);
    // A store does not make up for a broker.
    let wrong = Case::new("").wrong(&["--store", "a.db", "--ledger", "mysql://h/d"]);
    assert_eq!(wrong, ["the flag --ledger needs `broker`, which is not given"]);
}

#[test]
fn an_empty_variable_is_not_set_and_a_secret_not_shown() {
    let settings = Case::new("").set("DUETIME_BROKER", "").set("DUETIME_HORIZON", "").settings(&[]);
    assert!(settings.mistakes.is_empty());
    assert_eq!(used(&settings, "broker"), (String::new(), Origin::Default));
    let settings = Case::new("").set("DUETIME_BROKER", "redis://me:hush@h").settings(&[]);
    assert_eq!(used(&settings, "broker").0, "redis://***@h");
    let settings = Case::new("deliver_redis = [\"redis://:hush@a\", \"redis://b\"]\n").settings(&[]);
    assert_eq!(used(&settings, "deliver_redis").0, "redis://***@a,redis://b");
}

#[test]
fn every_line_of_the_example_is_a_key() {
    let serve = serve();
    let example = example(&serve);
    for arg in options(&serve) {
        assert!(example.lines().any(|line| line.starts_with(&format!("#{} = ", key(arg)))), "{}", key(arg));
    }
    // With every default written out nothing changes.
    let has_default = |line: &&str| {
        let name = line.strip_prefix('#').and_then(|line| line.split_once(" = ")).map_or("", |(name, _)| name);
        let arg = options(&serve).find(|arg| key(arg) == name);
        // Options that need a ledger do not work with a file alone, nor does a store with an option that excludes it.
        arg.is_some_and(|arg| {
            (is_switch(arg) || !arg.get_default_values().is_empty()) && needs(arg.get_id().as_str()).is_empty()
        })
    };
    let lines: Vec<_> = example.lines().filter(has_default).map(|line| &line[1..]).collect();
    assert!(lines.len() > 8, "{lines:?}");
    let case = Case::new(&lines.join("\n"));
    assert_eq!(case.wrong(&[]), [""; 0]);
    let (of_file, of_nobody) = (case.settings(&[]), Case::new("").settings(&[]));
    for (one, other) in of_file.all.iter().zip(&of_nobody.all) {
        assert_eq!((&one.key, &one.values), (&other.key, &other.values));
    }
}

#[test]
fn help_shows_the_variables_and_a_wrong_line_is_clap_s_to_refuse() {
    let error = Case::new("").parse(&["--help"]).err().unwrap();
    assert!(!error.use_stderr() && error.to_string().contains("DUETIME_LISTEN"), "{error}");
    let error = Case::new("").parse(&["--listne", "x"]).err().unwrap();
    assert!(error.use_stderr() && error.to_string().contains("--listen"), "{error}");
}

#[test]
fn whatever_a_file_holds_is_read_or_refused() {
    // Matching the whole command line is slow.
    duetime_core::testing::fuzz_part("config", 20, |text| {
        let case = Case::new(text);
        case.wrong(&[]).is_empty().then(|| text.to_owned())
    });
}
