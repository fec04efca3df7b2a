//! Signatures in the form of the Standard Webhooks: HMAC-SHA256 over id, time and body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// The value of `webhook-signature`: one for each key, with spaces in between.
pub(super) fn sign(ring: &[hmac::Key], id: &str, seconds: &str, body: &[u8]) -> String {
    let mut signatures = String::with_capacity(ring.len() * 48);
    for key in ring {
        let mut context = hmac::Context::with_key(key);
        for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
            context.update(part);
        }
        let separator = if signatures.is_empty() { "v1," } else { " v1," };
        signatures.push_str(separator);
        STANDARD.encode_string(context.sign(), &mut signatures);
    }
    signatures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's libraries.
    #[test]
    fn the_known_example_is_signed_alike() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let key = || hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let (id, seconds, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
        let one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(sign(&[key()], id, seconds, body), one);
        assert_eq!(sign(&[key(), key()], id, seconds, body), format!("{one} {one}"));
    }
}
