/**
 * Tokens that only such a server can create: signatures of thinking, encrypted reasoning.
 *
 * A token contains its fields and a keyed hash of them. The server therefore stores no tokens, and a token of one
 * server is valid at another.
 */
import { createHmac } from "node:crypto"

/** Returns a short keyed hash. */
export const digest = (value: string): string =>
  createHmac("sha256", "outlast").update(value).digest("base64url").slice(0, 22)

/** Encodes fields as a token in base64. No field may contain `|`. */
export const seal = (...fields: ReadonlyArray<string>): string => {
  const sealed = fields.join("|")
  return Buffer.from(`${sealed}|${digest(sealed)}`).toString("base64")
}

/** Returns the fields of a token, or `undefined` when no such server created it. */
export const unseal = (token: string): ReadonlyArray<string> | undefined => {
  const fields = Buffer.from(token, "base64").toString().split("|")
  const mac = fields.pop()
  return mac === digest(fields.join("|")) ? fields : undefined
}
