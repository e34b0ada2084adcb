/**
 * Tokens that only a server of this kind can make: signatures of thinking, encrypted reasoning.
 *
 * A token holds its fields and a keyed hash of them. So the server keeps no memory of what it made, and a token
 * of one server is good at another.
 */
import { createHmac } from "node:crypto"

/** A short keyed hash. */
export const digest = (value: string): string =>
  createHmac("sha256", "outlast").update(value).digest("base64url").slice(0, 22)

/** The fields, of which none holds a `|`, as a token in base64. */
export const seal = (...fields: ReadonlyArray<string>): string => {
  const sealed = fields.join("|")
  return Buffer.from(`${sealed}|${digest(sealed)}`).toString("base64")
}

/** The fields of a token, or `undefined` when no server of this kind made it. */
export const unseal = (token: string): ReadonlyArray<string> | undefined => {
  const fields = Buffer.from(token, "base64").toString().split("|")
  const mac = fields.pop()
  return mac === digest(fields.join("|")) ? fields : undefined
}
