//! The parts that schemas of bodies share: bounds of numbers, optional fields of answers, and examples.

use super::super::problem::CODES;
use super::operation::{operations, without_null};
use crate::deliver;
use serde_json::{Map, Value, json};
use utoipa::Number;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, Object, Schema, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr};

/// An example of each body, by the name of its schema; and of each answer that is unlike others of its schema, by its path.
const EXAMPLES: &str = include_str!("examples.json");

pub(super) fn examples() -> Map<String, Value> {
    serde_json::from_str(EXAMPLES).expect("examples are JSON")
}

/// Says of all schemas what follows from their kind.
pub(super) fn finish(document: &mut OpenApi) {
    let examples = examples();
    let components = document.components.as_mut().expect("there are schemas");
    for (name, schema) in &mut components.schemas {
        let RefOr::T(schema) = schema else { continue };
        if name == "ProblemCode"
            && let Schema::Object(object) = schema
        {
            object.enum_values = Some(CODES.iter().map(|(code, ..)| json!(code)).collect());
            object.examples = vec![json!("invalid")];
        }
        if name == "Target" {
            name_layouts(schema);
        }
        if let (Schema::Object(object), Some(example)) = (&mut *schema, examples.get(name)) {
            object.examples = vec![example.clone()];
        }
        visit(schema);
    }
    for (path, item) in &mut document.paths.paths {
        for (_, operation) in operations(item) {
            let parameters = operation.parameters.iter_mut().flatten().filter_map(|parameter| match parameter {
                RefOr::T(parameter) => parameter.schema.as_mut(),
                RefOr::Ref(_) => None,
            });
            parameters.for_each(|schema| {
                without_null(schema);
                if let RefOr::T(schema) = schema {
                    strip_null(schema);
                    visit(schema);
                }
            });
            if let Some(RefOr::T(body)) = &mut operation.request_body {
                body.content.values_mut().for_each(|content| show(content, &examples));
            }
            for (status, response) in &mut operation.responses.responses {
                let path = if status.starts_with('2') { path.as_str() } else { "" };
                if let RefOr::T(response) = response {
                    response.content.values_mut().for_each(|content| answer(content, path, &examples));
                }
            }
        }
    }
}

/// Says which layouts of lists this server knows: the core's schema has any name.
fn name_layouts(target: &mut Schema) {
    let mut document = serde_json::to_value(&*target).expect("a schema is JSON");
    let forms = document["oneOf"].as_array_mut().into_iter().flatten();
    for layout in forms.filter_map(|form| form.pointer_mut("/properties/redis_list/properties/as")) {
        layout["enum"] = json!(deliver::layout_names());
        layout.as_object_mut().map(|layout| layout.remove("pattern"));
    }
    *target = serde_json::from_value(document).expect("it was a schema");
}

/// Gives an answer the example of its path, else that of its schema.
fn answer(content: &mut RefOr<Content>, path: &str, examples: &Map<String, Value>) {
    if let RefOr::T(Content { schema: Some(RefOr::Ref(_)), example, .. }) = &mut *content {
        *example = example.take().or_else(|| examples.get(path).cloned());
    }
    show(content, examples);
}

/// Gives a body the example of its schema.
fn show(content: &mut RefOr<Content>, examples: &Map<String, Value>) {
    let RefOr::T(content) = content else { return };
    if let Some(RefOr::Ref(Ref { ref_location, .. })) = &content.schema {
        let name = ref_location.rsplit('/').next().unwrap_or_default();
        // One that the operation gives itself stays.
        content.example = content.example.take().or_else(|| examples.get(name).cloned());
    }
}

fn visit(schema: &mut Schema) {
    match schema {
        Schema::Object(object) => visit_object(object),
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                visit_either(items);
            }
        }
        Schema::OneOf(one) => {
            no_null_default(&mut one.default);
            one.items.iter_mut().for_each(visit_either);
        }
        Schema::AllOf(all) => all.items.iter_mut().for_each(visit_either),
        Schema::AnyOf(any) => any.items.iter_mut().for_each(visit_either),
        _ => {}
    }
}

fn visit_either(schema: &mut RefOr<Schema>) {
    if let RefOr::T(schema) = schema {
        visit(schema);
    }
}

fn visit_object(object: &mut Object) {
    bound(object);
    no_null_default(&mut object.default);
    // Requests refuse what they do not know; there `null` is the same as nothing. Answers leave out what there is not.
    let is_answer = !matches!(object.additional_properties.as_deref(), Some(AdditionalProperties::FreeForm(false)));
    let Object { properties, required, .. } = object;
    for (name, property) in properties {
        if is_answer && !required.contains(name) {
            without_null(property);
            if let RefOr::T(schema) = property {
                strip_null(schema);
            }
        }
        visit_either(property);
    }
}

/// Removes a default of `null`: the field is left out instead.
fn no_null_default(default: &mut Option<Value>) {
    *default = default.take().filter(|default| !default.is_null());
}

/// Takes `null` out of the types.
fn strip_null(schema: &mut Schema) {
    let kind = match schema {
        Schema::Object(object) => &mut object.schema_type,
        Schema::Array(array) => &mut array.schema_type,
        _ => return,
    };
    if let SchemaType::Array(kinds) = kind {
        kinds.retain(|kind| *kind != Type::Null);
        if kinds.len() == 1 {
            *kind = SchemaType::Type(kinds.remove(0));
        }
    }
}

/// Bounds a number by what its type holds.
fn bound(object: &mut Object) {
    let format = object.format.as_ref().map(|format| match format {
        SchemaFormat::KnownFormat(format) => json!(format).as_str().unwrap_or_default().to_owned(),
        SchemaFormat::Custom(format) => format.clone(),
    });
    let max = match format.as_deref() {
        Some("u-int8" | "uint8") => ("uint8", u64::from(u8::MAX)),
        Some("u-int16" | "uint16") => ("uint16", u64::from(u16::MAX)),
        Some("u-int32" | "uint32") => ("uint32", u64::from(u32::MAX)),
        Some("u-int64" | "uint64") => ("uint64", u64::MAX),
        _ => return,
    };
    let (format, max) = max;
    object.format = Some(SchemaFormat::Custom(format.to_owned()));
    object.minimum.get_or_insert(Number::UInt(0));
    object.maximum.get_or_insert(Number::UInt(max as usize));
}
