/**
 * How a target is reached in its own wire format, for a program that already has a request in that format: the base URL,
 * the headers, the way its key is sent. The vendor modules attach it to the targets that they make.
 *
 * A target without one (`AiSdk.model`, a hand-written `TargetSpec`) is reached by its `ProviderModel` alone.
 */
import type { ProviderModel } from "@outlast/agent"
import { sendable } from "./Vendor.ts"

/** Chat Completions and Responses of OpenAI, Messages of Anthropic. */
export type WireName = "chat" | "responses" | "messages"

export interface Wiring {
  /** Formats that the endpoint speaks with this model. */
  readonly wires: ReadonlyArray<WireName>
  /** Without a trailing slash. */
  readonly baseUrl: string
  /** Headers of every request, without the key. Treated as secrets. */
  readonly headers: Readonly<Record<string, string>>
  /** The headers with the key. Throws the failure of the attempt when no header can carry it. */
  readonly keyed: (key: string | undefined) => Readonly<Record<string, string>>
  /** Streams of Chat Completions may be asked for their usage. */
  readonly streamUsage: boolean
  /** The program's own; `undefined` for the default. */
  readonly fetch: typeof globalThis.fetch | undefined
}

const property = Symbol.for("@outlast/providers/aisdk/Wiring")

/** The target with its wiring, in a function: its headers must not appear where a target is printed. A copy keeps it. */
export const wired = (spec: ProviderModel.TargetSpec, wiring: Wiring): ProviderModel.TargetSpec =>
  Object.assign(spec, { [property]: () => wiring })

/** The wiring of a target, if it has one. */
export const of = (spec: object): Wiring | undefined =>
  // Only `wired` writes this property.
  (spec as { readonly [property]?: () => Wiring })[property]?.()

/** OpenAI's way to send a key. */
export const bearer: Wiring["keyed"] = (key) =>
  key === undefined ? {} : { authorization: `Bearer ${sendable(key)}` }

/** Anthropic's way to send a key. */
export const apiKey: Wiring["keyed"] = (key) => (key === undefined ? {} : { "x-api-key": sendable(key) })
