/**
 * Decodes UTF-8 strictly. Invalid bytes are an error, because replacement characters would change the file when it is
 * written back. Pure.
 *
 * A byte order mark is kept in the text, so that a transcript that fits is written unchanged.
 */
import { Result } from "effect"

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const lenient = new TextDecoder("utf-8", { ignoreBOM: true })

/** Returns the text, or the line (starting at 1) with the first invalid bytes. */
export const decode = (bytes: Uint8Array): Result.Result<string, number> =>
  Result.try({ try: () => strict.decode(bytes), catch: () => lineOf(bytes) })

const newline = 0x0a

const lineOf = (bytes: Uint8Array): number => {
  const after = new TextEncoder().encode(lenient.decode(bytes))
  const wrong = bytes.findIndex((byte, i) => byte !== after[i])
  return bytes.subarray(0, wrong).reduce((line, byte) => (byte === newline ? line + 1 : line), 1)
}
