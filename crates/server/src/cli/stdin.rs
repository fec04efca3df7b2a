//! Input from standard input.

use super::exit::{Failure, Result};
use duetime_core::Payload;
use duetime_core::limits::PAYLOAD_BYTES_MAX;
use std::io::Read;

/// The text itself, or all of standard input if it is `-`.
pub(crate) fn or_text(text: &str) -> Result<Payload> {
    if text != "-" {
        return Ok(Payload::from(text.as_bytes()));
    }
    let mut bytes = Vec::new();
    let limit = PAYLOAD_BYTES_MAX as u64 + 1;
    std::io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > PAYLOAD_BYTES_MAX {
        return Err(Failure::error(format!(
            "standard input has more than {PAYLOAD_BYTES_MAX} bytes, the limit of a payload"
        )));
    }
    Ok(Payload::from(bytes))
}
