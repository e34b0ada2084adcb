/**
 * Signatures of thinking blocks.
 *
 * A signature names the model that made the block and holds digests of the text and of all that stood before
 * it, under a keyed hash. So the server keeps no memory, and a signature of one server is good at another.
 * Not bound to an account.
 */
import { createHmac } from "node:crypto"
import type { Schema } from "effect"
import type { Body } from "./body.ts"
import { joined } from "./body.ts"

/** What a valid signature says. */
export interface Signed {
  readonly model: string
  readonly text: string
  readonly prefix: string
}

const digest = (value: string): string =>
  createHmac("sha256", "outlast").update(value).digest("base64url").slice(0, 22)

/** `before` is the request that was answered, or the part of a later one that should be equal to it. */
export const sign = (model: string, text: string, before: string): string => {
  const signed = [model, digest(text), digest(before)].join("|")
  return Buffer.from(`${signed}|${digest(signed)}`).toString("base64")
}

/** What the signature says, or `undefined` when no server of this kind made it. */
export const verify = (signature: string): Signed | undefined => {
  const [model, text, prefix, mac] = Buffer.from(signature, "base64").toString().split("|")
  if (model === undefined || text === undefined || prefix === undefined) return undefined
  return mac === digest([model, text, prefix].join("|")) ? { model, text, prefix } : undefined
}

export const isOf = (signed: Signed, text: string): boolean => signed.text === digest(text)

export const follows = (signed: Signed, before: string): boolean => signed.prefix === digest(before)

/** What a block of the message `at` is bound to: system, tools and the messages before, cached or not. */
export const prefixOf = (body: Body, at: number): string => {
  const { system = [], tools = [] } = body.raw
  const instructions = typeof system === "string" ? [{ type: "text", text: system }] : system
  const turns = joined(body.messages.slice(0, at))
  const messages = turns.map(({ role, blocks }) => ({ role, content: blocks.map(({ block }) => block) }))
  return JSON.stringify([instructions, tools, messages], (name, value: Schema.Json) =>
    name === "cache_control" ? undefined : value
  )
}
