# Debian packages by CPack: culvertd (with the web UI in it), culvert-agent, culvert. deploy/packages/build runs it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME culvert)
set(CPACK_PACKAGE_VENDOR Culvert)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL culvertd culvert-agent culvert)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Culvert <packages@culvert.invalid>")
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(packages ${CMAKE_CURRENT_LIST_DIR})
set(made ${CMAKE_BINARY_DIR}/packages)

# culvert_package(NAME TARGET x SUMMARY text TEXT text SECTION 1|8 [DEPENDS text] [DOCS files]): binary, man page,
# documents, changelog; a unit, its user, settings and maintainer scripts where files of that name are here.
function(culvert_package name)
  cmake_parse_arguments(ARG "" "TARGET;SUMMARY;TEXT;SECTION;DEPENDS;PREPARE;CONFIG;FOLDER" "DOCS" ${ARGN})
  string(TOUPPER ${name} upper)
  install(TARGETS ${ARG_TARGET} RUNTIME DESTINATION /usr/bin COMPONENT ${name})
  install(FILES ${made}/${name}.${ARG_SECTION}.gz DESTINATION /usr/share/man/man${ARG_SECTION} COMPONENT ${name})
  install(FILES ${made}/changelog.gz ${packages}/copyright ${ARG_DOCS} DESTINATION /usr/share/doc/${name} COMPONENT ${name})
  add_custom_command(
    OUTPUT ${made}/${name}.${ARG_SECTION}.gz
    COMMAND ${packages}/man ${ARG_SECTION} $<TARGET_FILE:${ARG_TARGET}> ${ARG_SUMMARY} | gzip -9n > ${made}/${name}.${ARG_SECTION}.gz
    DEPENDS ${ARG_TARGET} ${packages}/man
    VERBATIM)
  set_property(GLOBAL APPEND PROPERTY CULVERT_PACKAGE_FILES ${made}/${name}.${ARG_SECTION}.gz)
  set(scripts)
  if(EXISTS ${packages}/${name}.service)
    install(FILES ${packages}/${name}.service DESTINATION /lib/systemd/system COMPONENT ${name})
    install(FILES ${packages}/${name}.sysusers DESTINATION /usr/lib/sysusers.d RENAME ${name}.conf COMPONENT ${name})
    install(FILES ${packages}/${ARG_CONFIG} DESTINATION ${ARG_FOLDER} COMPONENT ${name})
    file(WRITE ${made}/${name}/conffiles "${ARG_FOLDER}/${ARG_CONFIG}\n")
    set(CULVERT_UNIT ${name}.service)
    set(CULVERT_PREPARE "${ARG_PREPARE}")
    set(CULVERT_PACKAGE ${name})
    set(CULVERT_FOLDER ${ARG_FOLDER})
    foreach(script postinst prerm postrm)
      configure_file(${packages}/${script}.in ${made}/${name}/${script} @ONLY
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
      list(APPEND scripts ${made}/${name}/${script})
    endforeach()
    list(APPEND scripts ${made}/${name}/conffiles)
  endif()
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${ARG_DEPENDS}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${scripts}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_TEXT}" PARENT_SCOPE)
endfunction()

add_custom_command(
  OUTPUT ${made}/changelog.gz
  COMMAND gzip -9n < ${packages}/changelog > ${made}/changelog.gz
  DEPENDS ${packages}/changelog
  VERBATIM)
culvert_package(culvertd TARGET culvertd SECTION 8 CONFIG culvert.conf FOLDER /etc/culvert
  SUMMARY "GitOps control plane for many clusters"
  TEXT "The state and history of Argo CD, Argo Rollouts and Argo Workflows of every\ncluster, and the way into them: GraphQL, REST, web UI, and tunnels that\nagents dial out for. Needs PostgreSQL 15; Redis and RabbitMQ are optional."
  DEPENDS "procps, systemd | systemd-standalone-sysusers"
  PREPARE "    [ -e /etc/culvert/secrets/deployment.key ] ||\n        culvertd admin create-deployment-key /etc/culvert/secrets/deployment.key >/dev/null\n"
  DOCS ${CMAKE_SOURCE_DIR}/docs/operations.md ${CMAKE_SOURCE_DIR}/docs/security.md ${CMAKE_SOURCE_DIR}/deploy/culvert.example.conf)
culvert_package(culvert-agent TARGET culvert-agent SECTION 8 CONFIG agent.conf FOLDER /etc/culvert-agent
  SUMMARY "agent of one cluster for the Culvert control plane"
  TEXT "Watches Argo CD and what it manages through the Kubernetes API, reports it,\nand carries calls into the cluster, over one connection that it dials."
  DEPENDS "procps, systemd | systemd-standalone-sysusers"
  DOCS ${CMAKE_SOURCE_DIR}/docs/agent.md ${CMAKE_SOURCE_DIR}/deploy/culvert-agent.example.conf ${CMAKE_SOURCE_DIR}/deploy/agent-rbac.yaml)
culvert_package(culvert TARGET culvert SECTION 1
  SUMMARY "command line of the Culvert control plane"
  TEXT "Lists what runs in many clusters, and syncs, refreshes, rolls back and\nrestarts it through their agents, in the manner of kubectl."
  DOCS ${CMAKE_SOURCE_DIR}/docs/cli.md)
get_property(files GLOBAL PROPERTY CULVERT_PACKAGE_FILES)
add_custom_target(culvert-packages DEPENDS ${files} ${made}/changelog.gz culvertd culvert-agent culvert)
include(CPack)
