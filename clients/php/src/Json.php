<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Error\Invalid;

/**
 * Reads and writes JSON without changing it.
 *
 * Decoded objects are arrays, and integers beyond 64 bits are text, because PHP has no type for them. So a value that must
 * come back exactly as it came is taken from the text itself: `members` and `elements` cut it out.
 */
final class Json
{
    private const DEPTH = 512;
    /** Bytes of a message. */
    private const MESSAGE = 20_000;

    /** @throws \JsonException if it is not JSON that PHP can represent */
    public static function decode(string $text): mixed
    {
        return json_decode($text, true, self::DEPTH, \JSON_THROW_ON_ERROR | \JSON_BIGINT_AS_STRING);
    }

    /** @throws \JsonException if the value has no form in JSON: not UTF-8, a resource, NAN */
    public static function encode(mixed $value): string
    {
        if ($value instanceof RawJson) {
            return $value->text;
        }
        $flags = \JSON_UNESCAPED_SLASHES | \JSON_UNESCAPED_UNICODE | \JSON_PRESERVE_ZERO_FRACTION;
        return json_encode($value, $flags | \JSON_THROW_ON_ERROR, self::DEPTH);
    }

    /**
     * An object, also if it is empty. Members may be `RawJson`.
     *
     * @param array<mixed> $members
     * @throws Invalid that names the member which has no form in JSON
     */
    public static function object(array $members): string
    {
        $parts = [];
        foreach ($members as $name => $value) {
            try {
                $parts[] = self::encode((string) $name) . ':' . self::encode($value);
            } catch (\JsonException $error) {
                throw Invalid::field((string) $name, 'a value with a form in JSON, RawJson, or Bytes', $error->getMessage());
            }
        }
        return '{' . implode(',', $parts) . '}';
    }

    /**
     * The texts of an object's members, by name.
     *
     * @return array<string, string>
     */
    public static function members(string $object): array
    {
        $members = [];
        $at = self::blanks($object, 0) + 1;
        while (($at = self::blanks($object, $at)) < \strlen($object) && $object[$at] === '"') {
            $end = self::end($object, $at);
            $name = json_decode(substr($object, $at, $end - $at));
            $at = self::blanks($object, self::blanks($object, $end) + 1);
            $end = self::end($object, $at);
            $members[\is_string($name) ? $name : ''] = substr($object, $at, $end - $at);
            $at = self::blanks($object, $end) + 1;
        }
        return $members;
    }

    /**
     * The texts of an array's elements.
     *
     * @return list<string>
     */
    public static function elements(string $array): array
    {
        $elements = [];
        $at = self::blanks($array, 0) + 1;
        while (($at = self::blanks($array, $at)) < \strlen($array) && $array[$at] !== ']') {
            $end = self::end($array, $at);
            $elements[] = substr($array, $at, $end - $at);
            $at = self::blanks($array, $end) + 1;
        }
        return $elements;
    }

    /** Text that the server takes as a message: UTF-8, within its 64 KiB. What is cut off ends with `…`. */
    public static function message(string $text): string
    {
        // A byte that is not UTF-8 becomes three.
        $part = json_encode(substr($text, 0, self::MESSAGE), \JSON_INVALID_UTF8_SUBSTITUTE | \JSON_THROW_ON_ERROR);
        return (string) json_decode($part) . (\strlen($text) > self::MESSAGE ? '…' : '');
    }

    private static function blanks(string $text, int $at): int
    {
        return $at + strspn($text, " \t\r\n", $at);
    }

    /** Where the value that begins at `$at` ends. The text is JSON: whoever calls has decoded it. */
    private static function end(string $text, int $at): int
    {
        $depth = 0;
        do {
            switch ($text[$at] ?? '') {
                case '"':
                    do {
                        $at += 1 + strcspn($text, '"\\', $at + 1);
                        $isEscape = ($text[$at] ?? '') === '\\';
                        $at += $isEscape ? 1 : 0;
                    } while ($isEscape);
                    $at++;
                    break;
                case '{':
                case '[':
                    $depth++;
                    $at++;
                    break;
                case '}':
                case ']':
                    $depth--;
                    $at++;
                    break;
                default:
                    // A number, a word; within an array or object also blanks, commas and colons.
                    $at += $depth > 0 ? strcspn($text, '"{}[]', $at) : strcspn($text, ",]} \t\r\n", $at);
            }
        } while ($depth > 0 && $at < \strlen($text));
        return $at;
    }
}
