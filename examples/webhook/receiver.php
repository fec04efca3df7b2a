<?php
// Receives webhooks from Duetime, or from any other sender of Standard Webhooks.
//
//     WEBHOOK_KEYS='whsec_… whsec_…' php -S 127.0.0.1:8080 receiver.php
//
// A signature by any of the keys is accepted, so a key can be replaced without a gap. Other requests get a 401, which
// the sender retries: it may not have the new key yet.
declare(strict_types=1);

const TOLERANCE_SECONDS = 300;

/** Why a request is not to be taken; null where it is. */
function refusal(string $id, string $timestamp, string $signatures, string $body, string $keys): ?string
{
    if ($id === '' || !ctype_digit($timestamp)) {
        return 'expected webhook-id and webhook-timestamp';
    }
    // A captured request must not be usable later.
    if (abs(time() - (int) $timestamp) > TOLERANCE_SECONDS) {
        return 'the timestamp is more than five minutes off';
    }
    foreach (preg_split('/\s+/', $keys, -1, PREG_SPLIT_NO_EMPTY) as $key) {
        $secret = base64_decode(substr($key, strlen('whsec_')), true);
        $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $secret, true));
        foreach (explode(' ', $signatures) as $signature) {
            // Constant-time comparison.
            if (hash_equals($expected, $signature)) {
                return null;
            }
        }
    }
    return 'no key has signed this';
}

$header = fn (string $name): string => $_SERVER['HTTP_' . strtoupper(strtr($name, '-', '_'))] ?? '';
$body = file_get_contents('php://input');
$id = $header('webhook-id');
$refusal = refusal($id, $header('webhook-timestamp'), $header('webhook-signature'), $body, getenv('WEBHOOK_KEYS') ?: '');
if ($refusal !== null) {
    http_response_code(401);
    echo $refusal;
    return;
}
// A webhook may arrive twice: act once for each id. The id is the same in every attempt.
error_log("job $id of {$header('duetime-kind')}: $body");
echo "taken: $id";
