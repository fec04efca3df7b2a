//! A certificate, signed by its own root.

use std::path::PathBuf;
use std::process::Command;

pub(crate) struct Certificate(tempfile::TempDir);

impl Certificate {
    /// For this machine.
    pub(crate) fn new() -> Self {
        Self::of("DNS:localhost,IP:127.0.0.1")
    }

    /// For these names.
    pub(crate) fn of(names: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run = |words: &str| {
            let output = Command::new("openssl").args(words.split(' ')).current_dir(folder.path()).output().unwrap();
            assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        run(&format!("req -x509 {key} -keyout root.key -out root.pem -days 2 -subj /CN=root"));
        run(&format!("req {key} -keyout server.key -out server.csr -subj /CN=server"));
        let names = format!("subjectAltName={names}\nextendedKeyUsage=serverAuth\n");
        std::fs::write(folder.path().join("names"), names).unwrap();
        run(
            "x509 -req -in server.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2 -extfile names -out server.pem",
        );
        Self(folder)
    }

    /// `root.pem`, `server.pem` or `server.key`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
