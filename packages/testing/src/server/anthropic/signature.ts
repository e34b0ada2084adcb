/**
 * Signatures of thinking blocks.
 *
 * A signature names the model and the account that made the block. It contains digests of the block's text and of
 * everything before the block.
 */
import type { Schema } from "effect"
import { digest, seal, unseal } from "../seal.ts"
import type { Body } from "./body.ts"
import { joined } from "./body.ts"

/** The content of a valid signature. */
export interface Signed {
  readonly model: string
  readonly text: string
  readonly prefix: string
  readonly account: string
}

/** Signs a block. `before` is the request that was answered, or the part of a later request that must equal it. */
export const sign = (model: string, text: string, before: string, account: string): string =>
  seal(model, digest(text), digest(before), digest(account))

/** Returns the content of a signature, or `undefined` when no such server created it. */
export const verify = (signature: string): Signed | undefined => {
  const [model, text, prefix, account] = unseal(signature) ?? []
  return model === undefined || text === undefined || prefix === undefined || account === undefined
    ? undefined
    : { model, text, prefix, account }
}

export const isOf = (signed: Signed, text: string): boolean => signed.text === digest(text)

export const follows = (signed: Signed, before: string): boolean => signed.prefix === digest(before)

export const isFor = (signed: Signed, account: string): boolean => signed.account === digest(account)

/**
 * Returns everything that a block of the message `at` is bound to: system, tools and earlier messages, without cache
 * markers.
 */
export const prefixOf = (body: Body, at: number): string => {
  const { system = [], tools = [] } = body.raw
  const instructions = typeof system === "string" ? [{ type: "text", text: system }] : system
  const turns = joined(body.messages.slice(0, at))
  const messages = turns.map(({ role, blocks }) => ({ role, content: blocks.map(({ block }) => block) }))
  return JSON.stringify([instructions, tools, messages], (name, value: Schema.Json) =>
    name === "cache_control" ? undefined : value
  )
}
