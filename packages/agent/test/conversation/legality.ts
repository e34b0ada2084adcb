/**
 * Finds violations of a dialect in a conversation, in one walk over a flat list of its content. Shares no code with
 * the implementation.
 */
import type { Prompt } from "effect/ai"
import type { Dialect, Provenance } from "@outlast/agent/conversation"

type Item =
  | { readonly at: number; readonly role: "system" }
  | { readonly at: number; readonly role: "user" | "assistant" | "tool"; readonly part: Prompt.Part }

const flat = ({ content }: Prompt.Prompt): ReadonlyArray<Item> =>
  content.flatMap((message, at): ReadonlyArray<Item> =>
    message.role === "system"
      ? [{ at, role: "system" }]
      : (message.content as ReadonlyArray<Prompt.Part>).map((part) => ({ at, role: message.role, part }))
  )

const makerOf = (part: Prompt.Part) => {
  const { outlast } = part.options as {
    readonly outlast?: Provenance.Provenance & { readonly partial?: boolean }
  }
  return outlast?.provider === undefined ? undefined : outlast
}

/** Vendors that have signed a part. */
const signers = (part: Prompt.Part): ReadonlyArray<string> =>
  Object.keys(part.options).filter((name) => name !== "outlast")

export const problems = (
  prompt: Prompt.Prompt,
  dialect: Dialect.Dialect,
  me: Provenance.Provenance
): ReadonlyArray<string> => {
  const found: Array<string> = []
  const items = flat(prompt)
  const mine = (part: Prompt.Part): boolean => {
    const maker = makerOf(part)
    if (maker === undefined) return signers(part).some((name) => dialect.namespaces.includes(name))
    const fields =
      dialect.bound === "model"
        ? (["provider", "model"] as const)
        : (["provider", "model", "endpoint", "key"] as const)
    return maker.continued !== true && fields.every((field) => maker[field] === me[field])
  }

  // No message is empty.
  for (const [at, message] of prompt.content.entries()) {
    if (message.role !== "system" && message.content.length === 0) found.push(`${at}: empty`)
  }

  // Pairs: results follow in exactly the order of the open calls.
  let due: Array<string> = []
  const everyId = new Set<string>()
  let previous: Item | undefined
  for (const item of items) {
    if (item.role === "system") {
      if (due.length > 0) found.push(`${item.at}: system before results`)
      previous = item
      continue
    }
    const { at, role, part } = item
    if (due.length > 0 && role !== "tool" && !(role === "assistant" && previous?.at === at)) {
      found.push(`${at}: results are due: ${due.join()}`)
      due = []
    }
    switch (part.type) {
      case "tool-call":
        if (part.providerExecuted) {
          if (!mine(part)) found.push(`${at}: a foreign tool of a provider`)
          break
        }
        if (!dialect.callId.test(part.id)) found.push(`${at}: id ${part.id}`)
        if (!dialect.toolName.test(part.name)) found.push(`${at}: name ${part.name}`)
        if (dialect.uniqueCallIds && everyId.has(part.id)) found.push(`${at}: id ${part.id} twice`)
        everyId.add(part.id)
        due.push(`${part.id} ${part.name}`)
        break
      case "tool-result":
        if (role === "assistant") {
          // An unsigned result belongs to its call.
          const isUnsigned = makerOf(part) === undefined && signers(part).length === 0
          if (!mine(part) && !isUnsigned) found.push(`${at}: a foreign result`)
        } else if (due.shift() !== `${part.id} ${part.name}`)
          found.push(`${at}: a result out of place: ${part.id}`)
        break
      case "reasoning": {
        if (
          (dialect.thinking === "none" || !mine(part)) &&
          !(
            (dialect.thinking === "plain" || dialect.thinking === "required") &&
            makerOf(part) === undefined &&
            signers(part).length === 0
          )
        ) {
          found.push(`${at}: foreign thinking`)
        }
        const behind = items.slice(items.indexOf(item) + 1).filter((other) => other.at === at)
        if (!behind.some((other) => other.role === "assistant" && other.part.type !== "reasoning")) {
          found.push(`${at}: thinking with nothing behind it`)
        }
        break
      }
      case "text":
        if (part.text.trim() === "" && signers(part).length === 0) found.push(`${at}: a blank text`)
        break
      case "file":
        if (role === "assistant" && !dialect.assistantFiles) found.push(`${at}: a file of the assistant`)
        if (dialect.files !== undefined && !dialect.files.some((type) => part.mediaType.startsWith(type))) {
          found.push(`${at}: a file of type ${part.mediaType}`)
        }
        if (
          part.data instanceof URL &&
          !(dialect.linkedFiles ?? [""]).some((type) => part.mediaType.startsWith(type))
        ) {
          found.push(`${at}: a file behind a URL`)
        }
        break
    }
    if (role === "assistant" && (part.type === "text" || part.type === "tool-call")) {
      const foreign = makerOf(part) !== undefined && !mine(part)
      const vouched = dialect.unsignedCall?.namespace
      if (foreign && signers(part).some((name) => name !== vouched)) found.push(`${at}: a foreign signature`)
    }
    previous = item
  }
  if (due.length > 0) found.push(`end: results are due: ${due.join()}`)

  // The first call of a message has a signature or its replacement.
  const { unsignedCall } = dialect
  if (unsignedCall !== undefined) {
    for (const message of prompt.content) {
      if (message.role !== "assistant") continue
      const call = message.content.find((part) => part.type === "tool-call" && !part.providerExecuted)
      const signature = (call?.options[unsignedCall.namespace] as Record<string, unknown> | undefined)?.[
        unsignedCall.field
      ]
      if (call !== undefined && signature === undefined) found.push("a call without signature")
      if (call !== undefined && !mine(call) && signature !== unsignedCall.value)
        found.push("a foreign signature")
    }
  }

  // Roles.
  const roles = prompt.content.map(({ role }) => role)
  const body = roles.slice(roles.findIndex((role) => role !== "system"))
  if (dialect.system === "leading" && body.includes("system")) found.push("a late system message")
  if (dialect.system === "between" && /system,(user|tool|system)|assistant,system/.test(body.join())) {
    found.push("a system message out of place")
  }
  if (dialect.callsFollowUser && body.join().includes("assistant,assistant")) found.push("two assistants")
  if (dialect.callsFollowUser && /^assistant,tool/.test(body.join())) found.push("a call first")
  if (dialect.alternates) {
    if (roles.some((role, i) => role !== "tool" && role === roles[i - 1])) found.push("a role twice in a row")
    if (body[0] === "assistant") found.push("the assistant first")
  }
  if (dialect.thinking === "required") {
    for (const message of prompt.content) {
      if (message.role !== "assistant") continue
      const types = message.content.map((part) =>
        part.type === "tool-call" && part.providerExecuted ? "" : part.type
      )
      if (types.includes("tool-call") && !types.includes("reasoning")) found.push("a call without thinking")
    }
  }
  const last = prompt.content.at(-1)
  if (dialect.ending === "user" && last?.role === "assistant") {
    if (!last.content.some((part) => part.type === "tool-call" && part.providerExecuted))
      found.push("assistant last")
  }
  if (dialect.ending === "prefill" && last?.role === "assistant") {
    const part = last.content.at(-1)
    if (part?.type === "text" && /\s$/.test(part.text)) found.push("white space last")
  }
  return found
}
