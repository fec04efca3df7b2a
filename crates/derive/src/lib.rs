//! The derive macro of `duetime`. Its documentation is there, at `JobType`.

mod expand;
mod settings;
mod span;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `duetime::JobType`, with what `#[job(…)]` says.
#[proc_macro_derive(Job, attributes(job))]
pub fn job(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
