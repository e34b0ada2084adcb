/**
 * By what a conversation is known again: a hash of its beginning, the system messages and the first message of the
 * user.
 *
 * That is what a prompt cache is about: providers cache prefixes. Two conversations that begin alike share the cache,
 * so that they may share the key; one whose beginning was compacted away is another one, as it is for the cache. The
 * key holds nothing of the text. Two conversations with the same key by chance (one in 10¹⁵) share a preference.
 *
 * Its cost does not grow with the conversation: it reads at most `keyMessages` messages, `keyTexts` texts
 * of each, and of a long text only the ends and the length.
 */
import type { Prompt } from "effect/ai"
import { keyCharacters, keyMessages, keyTexts } from "../decide/Bounds.ts"

/** The key of the conversation that a prompt belongs to. */
export const of = (prompt: Prompt.Prompt): string => {
  const hash = new Hash()
  for (const message of prompt.content.slice(0, keyMessages)) {
    hash.add(message.role)
    for (const text of textsOf(message)) hash.addEnds(text)
    if (message.role === "user") break
  }
  return hash.digest()
}

const textsOf = (message: Prompt.Message): ReadonlyArray<string> => {
  if (message.role === "system") return [message.content]
  const parts: ReadonlyArray<Prompt.Part> = message.content
  // A file is known by its name: its bytes may be many.
  return parts
    .slice(0, keyTexts)
    .map((part) =>
      part.type === "text"
        ? part.text
        : part.type === "file"
          ? `${part.mediaType} ${part.fileName ?? ""}`
          : ""
    )
}

/** 53 bits of a string in two halves of 32 (cyrb53, public domain): not for secrets, only for telling apart. */
class Hash {
  #high = 0xdeadbeef
  #low = 0x41c6ce57

  addEnds(text: string): void {
    this.add(String(text.length))
    if (text.length <= 2 * keyCharacters) this.add(text)
    else {
      this.add(text.slice(0, keyCharacters))
      this.add(text.slice(-keyCharacters))
    }
  }

  add(text: string): void {
    for (let i = 0; i < text.length; i++) this.#mix(text.charCodeAt(i))
    // Between texts, so that ("ab", "c") is not ("a", "bc").
    this.#mix(0x1_0000)
  }

  #mix(code: number): void {
    this.#high = Math.imul(this.#high ^ code, 2654435761)
    this.#low = Math.imul(this.#low ^ code, 1597334677)
  }

  digest(): string {
    let high = Math.imul(this.#high ^ (this.#high >>> 16), 2246822507)
    high ^= Math.imul(this.#low ^ (this.#low >>> 13), 3266489909)
    let low = Math.imul(this.#low ^ (this.#low >>> 16), 2246822507)
    low ^= Math.imul(high ^ (high >>> 13), 3266489909)
    return (4294967296 * (2097151 & low) + (high >>> 0)).toString(36)
  }
}
