//! The implementation that the macro writes.

use crate::settings::{Backoff, Settings, WhenExhausted};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Result};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let settings = Settings::read(&input.attrs)?;
    let name = &input.ident;
    let missing = || Error::new(name.span(), "give the kind of these jobs: #[job(kind = \"…\")]");
    let kind = settings.kind.as_ref().ok_or_else(missing)?;
    let mut items = vec![quote! { const KIND: &'static str = #kind; }];
    items.extend(settings.queue.as_ref().map(|queue| quote! { const QUEUE: &'static str = #queue; }));
    if !settings.was.is_empty() {
        let was = &settings.was;
        items.push(quote! { const WAS: &'static [&'static str] = &[#(#was),*]; });
    }
    for (constant, ms) in [("TIMEOUT", settings.timeout), ("EXPIRES", settings.expires), ("LEASE", settings.lease)] {
        let constant = format_ident!("{constant}");
        items.extend(ms.map(|ms| {
            let duration = duration(ms);
            quote! { const #constant: ::core::option::Option<::core::time::Duration> = ::core::option::Option::Some(#duration); }
        }));
    }
    items.extend(settings.concurrency.as_ref().map(|limit| {
        quote! { const CONCURRENCY: ::core::option::Option<usize> = ::core::option::Option::Some(#limit); }
    }));
    items.extend(settings.priority.as_ref().map(|priority| quote! { const PRIORITY: u32 = #priority; }));
    items.extend(retry(&settings));
    items.extend(key(input, &settings.unique)?);
    items.extend(tags(input, &settings.tags)?);
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::duetime::JobType for #name #arguments #bounds { #(#items)* }
    })
}

fn duration(ms: u64) -> TokenStream {
    quote! { ::core::time::Duration::from_millis(#ms) }
}

fn retry(settings: &Settings) -> Option<TokenStream> {
    let mut sets = Vec::new();
    sets.extend(settings.retry.as_ref().map(|backoff| {
        let backoff = match backoff {
            Backoff::Default => quote! { ::duetime::retry::Backoff::Default },
            Backoff::None => quote! { ::duetime::retry::Backoff::None },
            Backoff::Steps(steps) => {
                let steps = steps.iter().map(|&ms| duration(ms));
                quote! { ::duetime::retry::Backoff::steps([#(#steps),*]) }
            }
        };
        quote! { retry.backoff = ::core::option::Option::Some(#backoff); }
    }));
    sets.extend(settings.jitter.map(|jitter| quote! { retry.jitter = ::core::option::Option::Some(#jitter); }));
    sets.extend(settings.max_attempts.as_ref().map(|attempts| {
        quote! { retry.max_attempts = ::core::option::Option::Some(#attempts); }
    }));
    sets.extend(settings.max_age.map(|ms| {
        let duration = duration(ms);
        quote! { retry.max_age = ::core::option::Option::Some(#duration.into()); }
    }));
    sets.extend(settings.max_crashes.as_ref().map(|crashes| {
        quote! { retry.max_crashes = ::core::option::Option::Some(#crashes); }
    }));
    sets.extend(settings.when_exhausted.as_ref().map(|end| {
        let end = match end {
            WhenExhausted::Keep => quote! { Keep },
            WhenExhausted::Drop => quote! { Drop },
            WhenExhausted::Restart => quote! { Restart },
            WhenExhausted::Move(queue) => quote! { Move(::std::sync::Arc::from(#queue)) },
        };
        quote! { retry.when_exhausted = ::core::option::Option::Some(::duetime::retry::WhenExhausted::#end); }
    }));
    (!sets.is_empty()).then(|| {
        quote! {
            fn retry() -> ::duetime::retry::Retry {
                let mut retry = ::duetime::retry::Retry::default();
                #(#sets)*
                retry
            }
        }
    })
}

/// `KIND:value`, with the values of these fields.
fn key(input: &DeriveInput, fields: &[LitStr]) -> Result<Option<TokenStream>> {
    if fields.is_empty() {
        return Ok(None);
    }
    let values = fields.iter().map(|field| value(input, field)).collect::<Result<Vec<_>>>()?;
    let form = format!("{{}}{}", ":{}".repeat(values.len()));
    Ok(Some(quote! {
        fn key(&self) -> ::core::option::Option<::std::string::String> {
            ::core::option::Option::Some(::std::format!(#form, Self::KIND, #(#values),*))
        }
    }))
}

/// `field:value` for each of these fields.
fn tags(input: &DeriveInput, fields: &[LitStr]) -> Result<Option<TokenStream>> {
    if fields.is_empty() {
        return Ok(None);
    }
    let values = fields.iter().map(|field| value(input, field)).collect::<Result<Vec<_>>>()?;
    Ok(Some(quote! {
        fn tags(&self) -> ::std::vec::Vec<::std::string::String> {
            ::std::vec![#(::std::format!("{}:{}", #fields, #values)),*]
        }
    }))
}

/// The value of a field that is named by its text. Every part is at the field, so that an error about its type is there, too.
fn value(input: &DeriveInput, name: &LitStr) -> Result<TokenStream> {
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        _ => return Err(Error::new(name.span(), "only a struct has fields to name here")),
    };
    let named = match fields {
        Fields::Named(named) => named.named.iter().filter_map(|field| field.ident.as_ref()).collect(),
        Fields::Unnamed(_) | Fields::Unit => Vec::new(),
    };
    let found = named.iter().find(|field| field.unraw() == name.value());
    let Some(field) = found else {
        let known: Vec<String> = named.iter().map(|field| format!("`{}`", field.unraw())).collect();
        let known =
            if known.is_empty() { "there are none".to_owned() } else { format!("there are {}", known.join(", ")) };
        return Err(Error::new(name.span(), format!("no field is named `{}`; {known}", name.value())));
    };
    Ok(quote_spanned! { field.span() => self.#field })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the value of a field that cannot be shown as text.
    #[test]
    fn an_error_about_a_type_is_at_its_field() {
        let input: DeriveInput = syn::parse_str("struct A { order: u64, r#type: Option<u8> }").unwrap();
        let places = value(&input, &LitStr::new("type", input.ident.span())).unwrap().into_iter();
        assert_eq!(places.map(|part| part.span().source_text().unwrap()).collect::<Vec<_>>(), ["r#type"; 3]);
    }

    #[test]
    fn nothing_is_written_that_was_not_said() {
        let input: DeriveInput = syn::parse_str(r#"#[job(kind = "a")] struct A<T>(T) where T: Copy;"#).unwrap();
        let expected = quote! {
            #[automatically_derived]
            impl<T> ::duetime::JobType for A<T> where T: Copy { const KIND: &'static str = "a"; }
        };
        assert_eq!(expand(&input).unwrap().to_string(), expected.to_string());
    }
}
