"""Looks at the site through a browser, in the environment that has its driver: prints what it found as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any
from urllib.parse import urljoin

from selenium import webdriver
from selenium.webdriver.common.by import By

_LINKS = "return [...document.querySelectorAll(arguments[0])].map(a => a.href.split('#')[0])"
_NAVIGATION = ".md-tabs a, .md-nav--primary a.md-nav__link"
_WIDE = "const e = document.documentElement; return e.scrollWidth > e.clientWidth"
_CODE = """return [...document.querySelectorAll('article pre > code')].filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.textContent.slice(0, 60))"""


def browser() -> Any:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def resize(driver: Any, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def search(driver: Any, site: str, word: str) -> int:
    """How many results a search has."""
    driver.get(site + "index.html")
    field = driver.find_element(By.CSS_SELECTOR, "input.md-search__input")
    field.click()
    field.send_keys(word)
    for _ in range(40):
        found = driver.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
        if found:
            return len(found)
        time.sleep(0.25)
    return 0


def main(site: str) -> dict[str, Any]:
    driver = browser()
    resize(driver, 1280)
    driver.get(site + "index.html")
    every = {link for link in driver.execute_script(_LINKS, ".md-nav--primary a.md-nav__link") if link.startswith(site)}
    guides = sorted(link for link in every if "/decisions/" not in link)
    tabs = sorted(set(driver.execute_script(_LINKS, ".md-tabs a")))
    near = set[str]()
    for tab in tabs:
        driver.get(tab)
        shown = "[...document.querySelectorAll(arguments[0])].filter(a => a.offsetParent !== null)"
        near |= set(driver.execute_script(f"return {shown}.map(a => a.href.split('#')[0])", _NAVIGATION))
    found: dict[str, Any] = {"guides": len(guides), "far": sorted(set(guides) - near), "wide": {}, "code": []}
    found["found"] = search(driver, site, "watermark")
    for width in (1280, 390):
        resize(driver, width)
        found["wide"][str(width)] = wide = []
        for guide in guides:
            driver.get(urljoin(site, guide))
            if driver.execute_script(_WIDE):
                wide.append(guide)
            if width == 1280:
                found["code"] += [f"{guide}: {text}" for text in driver.execute_script(_CODE)]
    driver.quit()
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
