//! TLS to PostgreSQL and MariaDB: with a named root; refused permanently, and soon, if the certificate is not trusted.

use duetime_core::ports::Ledger;
use duetime_core::testing::ledger_suite::fixture::{WATERMARK, job};
use duetime_store::sql::{self, Options};
use duetime_store::testing::{MariaDbServer, PostgresServer};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A certificate for 127.0.0.1, signed by its own root.
struct Certificate(tempfile::TempDir);

impl Certificate {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let run = |words: &str| {
            let output = Command::new("openssl").args(words.split(' ')).current_dir(folder.path()).output().unwrap();
            assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        run(&format!("req -x509 {key} -keyout root.key -out root.pem -days 2 -subj /CN=root"));
        run(&format!("req {key} -keyout server.key -out server.csr -subj /CN=server"));
        let names = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n";
        std::fs::write(folder.path().join("names"), names).unwrap();
        run(
            "x509 -req -in server.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2 -extfile names -out server.pem",
        );
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The server's user must own its key, and nobody else may read it.
    fn give_to(&self, user: &str) {
        std::fs::set_permissions(self.path("server.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        if is_root() {
            assert!(Command::new("chown").arg(user).arg(self.path("server.key")).status().unwrap().success());
        }
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    Path::new("/proc/self").metadata().unwrap().uid() == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_known_by_its_certificate() {
    let certificate = Certificate::new();
    certificate.give_to("postgres");
    let set = |name: &str, file: &str| format!("{name}={}", certificate.path(file).display());
    let settings = ["ssl=on".into(), set("ssl_cert_file", "server.pem"), set("ssl_key_file", "server.key")];
    let server = PostgresServer::with(false, &settings.each_ref().map(String::as_str));
    let options = Options { may_lose: true, ..Options::default() };

    let url = format!("{}?sslmode=verify-full", server.url());
    let error = sql::connect(&url, options).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("sslrootcert"), "{error}");

    let url = format!("{url}&sslrootcert={}", certificate.path("root.pem").display());
    let store = sql::connect(&url, options).await.unwrap();
    store.record(vec![job(1)], WATERMARK).await.unwrap();

    let other = url.replace("127.0.0.1", "localhost");
    let error = sql::connect(&other, options).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("for another host name"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_is_known_by_its_certificate() {
    let certificate = Certificate::new();
    let set = |name: &str, file: &str| format!("--{name}={}", certificate.path(file).display());
    let arguments =
        [set("ssl-cert", "server.pem"), set("ssl-key", "server.key"), "--require-secure-transport=1".into()];
    let server = MariaDbServer::with(true, &arguments.each_ref().map(String::as_str));
    let options = Options::default();

    let url = format!("{}?sslmode=require", server.url());
    let error = sql::connect(&url, options).await.unwrap_err();
    assert!(error.code() == "store_unusable" && error.to_string().contains("sslrootcert"), "{error}");

    let url = format!("{url}&sslrootcert={}", certificate.path("root.pem").display());
    let store = sql::connect(&url, options).await.unwrap();
    store.record(vec![job(1)], WATERMARK).await.unwrap();
    assert!(sql::connect(&server.url(), options).await.is_err(), "it takes none without");
}
