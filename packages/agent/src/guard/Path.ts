/** Normalises a path as text: `./src//a.ts` and `src\lib\..\a.ts` become `src/a.ts`. Pure. */
export const normalised = (path: string): string => {
  const parts: Array<string> = []
  for (const part of path.trim().replaceAll("\\", "/").split("/")) {
    if (part === ".." && parts.length > 0 && parts.at(-1) !== "..") parts.pop()
    else if (part !== "" && part !== ".") parts.push(part)
  }
  return `${/^[\\/]/.test(path.trim()) ? "/" : ""}${parts.join("/")}`
}
