/**
 * Bytes as text, and nothing else in their place: what is no UTF-8 would be written back as something else. Pure.
 *
 * A byte order mark stays in the text: what fits is written to the letter.
 */
import { Result } from "effect"

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const lenient = new TextDecoder("utf-8", { ignoreBOM: true })

/** The text, or the line, from 1, with the first bytes that are none. */
export const decode = (bytes: Uint8Array): Result.Result<string, number> =>
  Result.try({ try: () => strict.decode(bytes), catch: () => lineOf(bytes) })

const newline = 0x0a

const lineOf = (bytes: Uint8Array): number => {
  const after = new TextEncoder().encode(lenient.decode(bytes))
  const wrong = bytes.findIndex((byte, i) => byte !== after[i])
  return bytes.subarray(0, wrong).reduce((line, byte) => (byte === newline ? line + 1 : line), 1)
}
