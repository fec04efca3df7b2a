//! Programs that the tests call and a fresh Debian lacks.
//!
//! Installs only missing programs: if all are installed, it costs a few lookups and uses no network. The requirements of
//! cargo itself (a C compiler and linker) are not listed, since without them this program does not run.
//!
//! On a machine with systemd Debian's packages also start a Redis on port 6379, a sentinel on 26379, a MariaDB on 3306, a
//! PostgreSQL on 5432, and for `outside` a Prometheus on 9090. The tests do not use them: theirs are private and on other ports (`duetime_store::testing`).

use std::path::Path;
use std::process::Command;

use crate::process;

struct Needed {
    /// On the `PATH`; for a package without a program, the file that Debian has of it.
    program: &'static str,
    package: &'static str,
    used_by: &'static str,
}

const EXAMPLES: &str = "the examples of the inbox";
const CLIENTS: &str = "the packages for other languages";
const BEANSTALK: &str = "tests with clients of beanstalkd";
const ADOPT: &str = "tests that adopt jobs of programs in PHP and Ruby";
const PACKAGING: &str = "the tests of packaging";
const PACKAGES: &str = "packages and their test";

const NEEDED: &[Needed] = &[
    Needed { program: "beanstalkd", package: "beanstalkd", used_by: BEANSTALK },
    Needed { program: "npm", package: "npm", used_by: BEANSTALK },
    Needed { program: "/var/lib/dpkg/info/php-pda-pheanstalk.list", package: "php-pda-pheanstalk", used_by: BEANSTALK },
    Needed {
        program: "/var/lib/dpkg/info/php-illuminate-queue.list",
        package: "php-illuminate-queue",
        used_by: BEANSTALK,
    },
    Needed { program: "/var/lib/dpkg/info/php-illuminate-redis.list", package: "php-illuminate-redis", used_by: ADOPT },
    Needed { program: "/var/lib/dpkg/info/php-redis.list", package: "php-redis", used_by: ADOPT },
    Needed { program: "/usr/bin/sidekiq", package: "ruby-sidekiq", used_by: ADOPT },
    Needed { program: "/var/lib/dpkg/info/python3-pip.list", package: "python3-pip", used_by: BEANSTALK },
    Needed { program: "chromedriver", package: "chromium-driver", used_by: "the tests of the dashboard" },
    Needed { program: "openssl", package: "openssl", used_by: "the tests of TLS" },
    Needed { program: "curl", package: "curl", used_by: "the README's commands" },
    Needed { program: "faketime", package: "faketime", used_by: "tests of a server whose clock jumps" },
    Needed { program: "jq", package: "jq", used_by: "the README's commands" },
    Needed { program: "mariadbd", package: "mariadb-server", used_by: "tests of the ledger in MariaDB" },
    Needed { program: "pg_ctlcluster", package: "postgresql", used_by: "tests of the ledger in PostgreSQL" },
    Needed { program: "node", package: "nodejs", used_by: CLIENTS },
    Needed { program: "/usr/bin/python3", package: "python3", used_by: CLIENTS },
    Needed { program: "/var/lib/dpkg/info/python3-venv.list", package: "python3-venv", used_by: CLIENTS },
    Needed { program: "/var/lib/dpkg/info/php-curl.list", package: "php-curl", used_by: CLIENTS },
    Needed { program: "/var/lib/dpkg/info/php-sqlite3.list", package: "php-sqlite3", used_by: CLIENTS },
    Needed { program: "/var/lib/dpkg/info/php-xml.list", package: "php-xml", used_by: CLIENTS },
    Needed {
        program: "/var/lib/dpkg/info/php-laravel-framework.list",
        package: "php-laravel-framework",
        used_by: CLIENTS,
    },
    Needed { program: "phpunit", package: "phpunit", used_by: CLIENTS },
    Needed { program: "/var/lib/dpkg/info/python3-yaml.list", package: "python3-yaml", used_by: PACKAGING },
    Needed { program: "systemd-analyze", package: "systemd", used_by: PACKAGING },
    Needed { program: "systemd-sysusers", package: "systemd", used_by: PACKAGING },
    Needed { program: "php", package: "php-cli", used_by: EXAMPLES },
    Needed { program: "/var/lib/dpkg/info/php-mysql.list", package: "php-mysql", used_by: EXAMPLES },
    Needed { program: "/var/lib/dpkg/info/php-pgsql.list", package: "php-pgsql", used_by: EXAMPLES },
    Needed { program: "/var/lib/dpkg/info/python3-psycopg2.list", package: "python3-psycopg2", used_by: EXAMPLES },
    Needed { program: "/var/lib/dpkg/info/python3-pymysql.list", package: "python3-pymysql", used_by: EXAMPLES },
    Needed { program: "redis-sentinel", package: "redis-sentinel", used_by: "tests of failover" },
    Needed { program: "redis-server", package: "redis-server", used_by: "tests of the Redis broker" },
];

/// Needed by `cargo xtask outside` and `screenshots` alone.
const NEEDED_OUTSIDE: &[Needed] = &[
    Needed {
        program: "/var/lib/dpkg/info/fonts-wqy-microhei.list",
        package: "fonts-wqy-microhei",
        used_by: "pictures of the dashboard in Chinese",
    },
    Needed { program: "promtool", package: "prometheus", used_by: PACKAGING },
];

/// Needed by `cargo xtask package test` alone.
const NEEDED_FOR_PACKAGES: &[Needed] = &[
    Needed { program: "buildah", package: "buildah", used_by: PACKAGES },
    Needed { program: "dpkg-shlibdeps", package: "dpkg-dev", used_by: PACKAGES },
    Needed { program: "ip", package: "iproute2", used_by: PACKAGES },
    Needed { program: "lintian", package: "lintian", used_by: PACKAGES },
    Needed { program: "mmdebstrap", package: "mmdebstrap", used_by: PACKAGES },
    Needed { program: "systemd-nspawn", package: "systemd-container", used_by: PACKAGES },
];

/// Installs programs missing from the `PATH` with apt; if it may not, fails with the command to type.
pub(crate) fn install_missing() -> Result<(), String> {
    install(NEEDED)
}

/// The same, and what only the tests of `outside` call.
pub(crate) fn install_for_outside() -> Result<(), String> {
    install(NEEDED)?;
    install(NEEDED_OUTSIDE)
}

/// The same for the tools that make and test packages.
pub(crate) fn install_for_packages() -> Result<(), String> {
    install(NEEDED_FOR_PACKAGES)
}

fn install(needed: &[Needed]) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing: Vec<_> = needed.iter().filter(|needed| !is_on(&path, needed.program)).collect();
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    for needed in &missing {
        println!("{} is missing ({} need it)", needed.package, needed.used_by);
    }
    let packages: Vec<_> = missing.iter().map(|needed| needed.package).collect();
    let by_hand = format!("install by hand: apt-get install {}", packages.join(" "));
    apt(&["update", "-q"]).map_err(|error| format!("{error}; {by_hand}"))?;
    let install = [&["install", "-q", "-y", "--no-install-recommends"], packages.as_slice()].concat();
    apt(&install).map_err(|error| format!("{error}; {by_hand}"))
}

/// Whether cargo-nextest is installed.
pub(crate) fn has_nextest() -> bool {
    process::succeeds(process::cargo(["nextest", "--version"]))
}

fn apt(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    process::run(command)
}

fn is_on(path: &std::ffi::OsStr, program: &str) -> bool {
    std::env::split_paths(path).any(|folder| is_file(&folder.join(program)))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_path_only() {
        assert!(is_on("/nonexistent:/bin:/usr/bin".as_ref(), "sh"));
        assert!(!is_on("/nonexistent".as_ref(), "sh"));
        assert!(!is_on("/bin:/usr/bin".as_ref(), "no-such-program"));
        assert!(is_on("/bin".as_ref(), "/proc/self/status"), "a file has its own path");
    }
}
